int main(void) { return length(0); }
