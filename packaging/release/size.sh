#!/bin/sh
# usage: size.sh PROGRAM...   fails when a program has 13 MB or more
set -eu
limit=13000000
for program in "$@"; do
  size=$(wc -c <"$program")
  if [ "$size" -ge "$limit" ]; then
    echo "$program has $size bytes; the limit is $limit" >&2
    exit 1
  fi
  echo "$program: $size of at most $limit bytes"
done
