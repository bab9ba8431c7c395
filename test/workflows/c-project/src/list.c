int length(void *list) { return list ? 1 : 0; }
