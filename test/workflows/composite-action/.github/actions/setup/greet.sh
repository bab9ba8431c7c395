#!/bin/sh
echo "greet @VERSION@ says $1"
