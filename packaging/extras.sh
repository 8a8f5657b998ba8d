#!/bin/sh
# usage: extras.sh OOMDOCTOR FOLDER [RUNNER...]   writes what a package installs beside the program: completions and the manual
# page. RUNNER is what starts a program of another architecture.
set -eu
program=$1 folder=$2
shift 2
mkdir -p "$folder"
"$@" "$program" completions bash > "$folder/oomdoctor.bash"
"$@" "$program" completions zsh > "$folder/_oomdoctor"
"$@" "$program" completions fish > "$folder/oomdoctor.fish"
"$@" "$program" man > "$folder/oomdoctor.1"
