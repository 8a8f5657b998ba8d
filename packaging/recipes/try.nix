# Evaluates the recipe with a stand-in for nixpkgs, and prints what it would build.
# usage: nix-instantiate --eval --strict --json packaging/recipes/try.nix --arg recipe PATH
{ recipe }:
let
  # buildRustPackage passes the recipe its own result (nixpkgs, doc/languages-frameworks/rust.section.md, checked 2026-11-22).
  build = function: let result = function result; in result;
  package = import recipe {
    lib = {
      licenses = { mit = "MIT"; asl20 = "Apache-2.0"; };
      platforms = { linux = [ "x86_64-linux" "aarch64-linux" ]; darwin = [ "aarch64-darwin" ]; };
    };
    fetchurl = source: source;
    installShellFiles = "installShellFiles";
    rustPlatform.buildRustPackage = build;
  };
  lock = builtins.fromTOML (builtins.readFile package.cargoLock.lockFile);
  locked = builtins.filter (entry: entry.name == package.pname) lock.package;
in
{
  inherit (package) pname version meta src postInstall;
  lockedVersion = (builtins.head locked).version;
}
