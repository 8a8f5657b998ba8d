# shellcheck shell=bash
# shellcheck disable=SC2154
# The recipes of package managers that build or load a release themselves, filled in from templates.

crate_url=https://static.crates.io/crates/oomdoctor/oomdoctor-$version.crate
x86_64='x86_64-unknown-linux-gnu'
aarch64='aarch64-unknown-linux-gnu'

make_recipes() {
  local file
  for file in "$(archive_name $x86_64).tar.gz" "$(archive_name $aarch64).tar.gz" "$(crate_name)"; do
    if [ ! -e "$out/$file" ]; then
      not_done recipes "$file, whose checksum they hold"
      return
    fi
  done
  fill oomdoctor.rb.in homebrew/oomdoctor.rb
  fill PKGBUILD-bin.in aur/oomdoctor-bin/PKGBUILD
  fill PKGBUILD.in aur/oomdoctor/PKGBUILD
  fill oomdoctor.nix.in nix/oomdoctor.nix
  cp Cargo.lock "$out/nix/Cargo.lock"
  made "$out/homebrew/oomdoctor.rb" - "$(tried try_formula "$host" homebrew/oomdoctor.rb)"
  made "$out/aur/oomdoctor-bin/PKGBUILD" - "$(tried try_pkgbuild "$host" aur/oomdoctor-bin)"
  made "$out/aur/oomdoctor/PKGBUILD" - "$(tried read_pkgbuild "$host" aur/oomdoctor)"
  made "$out/nix/oomdoctor.nix" - "$(tried read_nix "$host" nix/oomdoctor.nix)"
}

sum_of() { sha256sum "$out/$1" | cut -d ' ' -f 1; }
# The form that nix calls SRI: the same checksum in base 64.
sri_of() { echo "sha256-$(sum_of "$1" | sed 's/../\\x&/g' | xargs -0 printf '%b' | base64 -w 0)"; }

fill() {
  mkdir -p "$(dirname "$out/$2")"
  sed \
    -e "s|@VERSION@|$version|g" -e "s|@SUMMARY@|$summary|g" -e "s|@ADDRESS@|$address|g" \
    -e "s|@DOWNLOADS@|$download_address|g" -e "s|@CRATE_URL@|$crate_url|g" \
    -e "s|@ARCHIVE_X86_64@|$(archive_name $x86_64).tar.gz|g" -e "s|@ARCHIVE_AARCH64@|$(archive_name $aarch64).tar.gz|g" \
    -e "s|@SHA256_X86_64@|$(sum_of "$(archive_name $x86_64).tar.gz")|g" \
    -e "s|@SHA256_AARCH64@|$(sum_of "$(archive_name $aarch64).tar.gz")|g" \
    -e "s|@CRATE_SHA256@|$(sum_of "$(crate_name)")|g" -e "s|@CRATE_SRI@|$(sri_of "$(crate_name)")|g" \
    "packaging/recipes/$1" >"$out/$2"
  if grep -n '@[A-Z0-9_]*@' "$out/$2"; then failed "$2 has an unfilled place"; fi
}

try_formula() {
  local formula=$out/$2 os architecture archive
  has ruby || needs "ruby (apt install ruby)" || return 1
  ruby -c "$formula" || return 1
  sums_for_formula >"$work/formula-sums"
  for os in linux macos; do
    for architecture in intel arm; do
      ruby packaging/recipes/try_formula.rb "$formula" "$os" "$architecture" "$work/formula-sums" || return 1
    done
  done
  archive=$out/$(archive_name "$host").tar.gz
  architecture=intel
  case $host in aarch64-*) architecture=arm ;; esac
  ruby packaging/recipes/try_formula.rb "$formula" linux "$architecture" "$work/formula-sums" "$archive" "$work/brew" || return 1
  [ -s "$work/brew/share/man/man1/oomdoctor.1" ] || says "no manual page" || return 1
  has_right_answers env -i "$work/brew/bin/oomdoctor"
}

sums_for_formula() { (cd "$out" && sha256sum ./*.tar.gz ./*.crate | sed 's| \./| |'); }

# makepkg refuses to run as root.
as_packager() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid nobody --regid nogroup --clear-groups env HOME="$work/packager" "$@"
  else
    "$@"
  fi
}

# Copies the recipe to a folder that the packager may write, and writes .SRCINFO beside both.
read_pkgbuild() {
  local folder=$work/packager/$2
  has makepkg || needs "makepkg (apt install makepkg libarchive-tools)" || return 1
  has bsdtar || needs "bsdtar (apt install libarchive-tools)" || return 1
  mkdir -p "$folder" && cp "$out/$2/PKGBUILD" "$folder/" || return 1
  # makepkg takes a source that already lies there, so nothing is downloaded; the checksums are compared all the same.
  cp "$out"/oomdoctor-"$version"-*-linux-gnu.tar.gz "$folder/" || return 1
  cp "$out/$(crate_name)" "$folder/oomdoctor-$version.tar.gz" || return 1
  if [ "$(id -u)" = 0 ]; then chown -R nobody:nogroup "$work/packager" || return 1; fi
  (
    cd "$folder"
    as_packager makepkg --printsrcinfo >"$work/srcinfo" && as_packager makepkg --verifysource --skippgpcheck --noconfirm
  ) || return 1
  grep -q "pkgver = $version" "$work/srcinfo" || says ".SRCINFO has another version" || return 1
  cp "$work/srcinfo" "$out/$2/.SRCINFO"
}

# Builds the package for both architectures, installs each with pacman into a clean root, and runs it.
try_pkgbuild() {
  local folder=$work/packager/$2 target root package
  read_pkgbuild "$1" "$2" || return 1
  has pacman || needs "pacman (apt install pacman-package-manager)" || return 1
  for target in "${targets[@]}"; do
    has_program "$target" || continue
    (
      cd "$folder"
      as_packager env CARCH="${target%%-*}" PKGEXT=.pkg.tar makepkg --force --nodeps --noconfirm
    ) || return 1
    root=$(clean_root "$target" "pacman-$target") || return 1
    package=$folder/oomdoctor-bin-$version-1-${target%%-*}.pkg.tar
    mkdir -p "$root/var/lib/pacman"
    printf '[options]\nArchitecture = %s\nSigLevel = Never\n' "${target%%-*}" >"$work/pacman.conf"
    pacman --upgrade --noconfirm --root "$root" --dbpath "$root/var/lib/pacman" --config "$work/pacman.conf" \
      --cachedir "$work/pacman-cache" --logfile /dev/null --assume-installed glibc --assume-installed gcc-libs \
      "$package" || return 1
    has_papers "$root/usr/share" || return 1
    has_right_answers run_in "$root" "$target" /usr/bin/oomdoctor || return 1
  done
}

read_nix() {
  local answer
  has nix-instantiate || needs "nix-instantiate (apt install nix-bin)" || return 1
  nix-instantiate --parse "$out/$2" >/dev/null || return 1
  answer=$(NIX_REMOTE=dummy:// nix-instantiate --eval --strict --json packaging/recipes/try.nix --arg recipe "$out/$2") || return 1
  case $answer in
    *"\"lockedVersion\":\"$version\""*"\"version\":\"$version\""*) ;;
    *) says "the nix recipe has another version: $answer" || return 1 ;;
  esac
}
