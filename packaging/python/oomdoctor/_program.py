"""Finds the program that was installed with this package."""

import os
import sys

__all__ = ["find_program"]


def find_program():
    """Return the path of the ``oomdoctor`` program, or None.

    ``OOMDOCTOR_PROGRAM`` wins. Then come the places where an installer puts the program that belongs to this package. PATH is last:
    an older program on PATH must not stand in for the one installed here.
    """
    # `python -E` and `-I` heed no variable, and a process that was given another user's rights trusts no place.
    if not sys.flags.ignore_environment:
        chosen = os.environ.get("OOMDOCTOR_PROGRAM")
        if chosen:
            return chosen if _is_program(chosen) else None
    if hasattr(os, "geteuid") and os.geteuid() != os.getuid():
        return None
    import sysconfig

    name = "oomdoctor" + (sysconfig.get_config_var("EXE") or "")
    for folder in _script_folders(sysconfig):
        path = os.path.join(folder, name)
        if _is_program(path):
            return path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, name)
        # An empty or relative entry means the current folder, where anybody's file may lie.
        if os.path.isabs(folder) and _is_program(path):
            return path
    return None


def _is_program(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _script_folders(sysconfig):
    """Return the folders in which the program of this installation can be, nearest first."""
    package = os.path.dirname(os.path.abspath(__file__))
    site = os.path.dirname(package)
    scripts = "Scripts" if os.name == "nt" else "bin"
    folders = []
    # A virtual environment, `pip install --prefix` and Debian's dist-packages: PREFIX/lib/pythonX.Y/site-packages/oomdoctor.
    if os.path.basename(site) in ("site-packages", "dist-packages"):
        levels = 2 if os.name == "nt" else 3
        prefix = site
        for _ in range(levels):
            prefix = os.path.dirname(prefix)
        folders.append(os.path.join(prefix, scripts))
    # `pip install --target FOLDER`: FOLDER/oomdoctor beside FOLDER/bin. A copy of the package in a project is not installed.
    if _is_installed_in(site):
        folders.append(os.path.join(site, scripts))
    folders.append(sysconfig.get_path("scripts"))
    folders.append(sysconfig.get_path("scripts", vars={"base": sys.base_prefix}))
    user_scheme = _user_scheme(sysconfig)
    if user_scheme in sysconfig.get_scheme_names() and getattr(sys.modules.get("site"), "ENABLE_USER_SITE", False):
        folders.append(sysconfig.get_path("scripts", scheme=user_scheme))
    if sys.executable:
        folders.append(os.path.dirname(sys.executable))
    return [folder for folder in folders if folder]


def _is_installed_in(site):
    try:
        return any(name.startswith("oomdoctor-") and name.endswith(".dist-info") for name in os.listdir(site))
    except OSError:
        return False


def _user_scheme(sysconfig):
    if sys.version_info >= (3, 10):
        return sysconfig.get_preferred_scheme("user")
    return os.name + "_user"
