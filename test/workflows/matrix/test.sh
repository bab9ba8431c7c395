#!/bin/sh
echo "testing with $DB on port $PORT"
[ "$DB" != mysql ]
