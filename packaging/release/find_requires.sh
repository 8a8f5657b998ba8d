#!/bin/sh
# usage: find_requires.sh < paths of files   prints what the programs among them require, in the words of RPM
# It reads programs of every architecture, which the tool's own search by ldd does not.
set -eu
while read -r file; do
  readelf --file-header "$file" >/dev/null 2>&1 || continue
  readelf --dynamic --wide "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1()(64bit)/p'
  readelf --version-info --wide "$file" |
    awk '/ File: / { for (i = 1; i < NF; i++) if ($i == "File:") file = $(i + 1) }
         / Name: / { for (i = 1; i < NF; i++) if ($i == "Name:") print file "(" $(i + 1) ")(64bit)" }'
done | sort -u
