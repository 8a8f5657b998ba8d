#!/bin/sh
# usage: size.sh PROGRAM...   fails when a program has 16 MB or more
set -eu
limit=16000000
for program in "$@"; do
  size=$(wc -c <"$program")
  if [ "$size" -ge "$limit" ]; then
    echo "$program has $size bytes; the limit is $limit" >&2
    exit 1
  fi
  echo "$program: $size of at most $limit bytes"
done
