#!/bin/sh
# Gets LLVM 22's tools (clang, ld.lld, llvm-objdump, llvm-mc, llc) on Debian and Ubuntu: usage `install_llvm.sh DEST`.
#
# Where they are on PATH, nothing is done. Root installs the packages. Anyone else downloads the packages, with the libraries that
# this system lacks, and unpacks them into DEST; DEST/bin/TOOL then starts each tool with those libraries. Where none of this works one
# line says so and the status is still 0: asmgen assembles with ziglang then, and only what reads a code object is missing.
# ASMGEN_LLVM_UNPACK=1 unpacks even where the tools or root's rights are there (the script's own test).
set -eu

dest=${1:?usage: install_llvm.sh DEST}
case $dest in /*) ;; *) dest=$PWD/$dest ;; esac # apt takes a relative folder as one of its own
version=22
tools="clang ld.lld llvm-objdump llvm-mc llc"
wanted="clang-$version lld-$version llvm-$version"
# Unpacked even where installed. clang's other dependencies are headers and libraries to build programs for this machine, and linkers.
unpacked="$wanted libclang-cpp$version libclang-common-$version-dev llvm-$version-linker-tools libllvm$version"
unpack=${ASMGEN_LLVM_UNPACK:-}

on_path() {
    for tool in $tools; do
        command -v "$tool-$version" >/dev/null 2>&1 || return 1
    done
}

works() { # DIRECTORY SUFFIX
    for tool in $tools; do
        "$1$tool$2" --version >/dev/null 2>&1 || return 1
    done
}

give_up() {
    echo "note: LLVM $version's tools could not be installed ($1); ziglang assembles, tests that read a code object are skipped" >&2
    exit 0
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    apt-cache show "clang-$version" >/dev/null 2>&1 || apt-get -q update || return 1
    # shellcheck disable=SC2086
    apt-get -q -y --no-install-recommends install $wanted || { apt-get -q update && apt-get -q -y --no-install-recommends install $wanted; }
}

# The packages to unpack: those above, and what apt would install for them here. A libc is never replaced: the loader is the system's.
packages() { # APT-OPTIONS...
    # shellcheck disable=SC2086
    missing=$(apt-get "$@" -s --no-install-recommends install "lld-$version" "llvm-$version" "libclang-cpp$version" |
        sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v '^libc6\|^libc-bin\|^locales') || missing=
    printf '%s\n' $unpacked $missing | sort -u
}

fetch() { # APT-OPTIONS...
    apt-cache "$@" show "clang-$version" >/dev/null 2>&1 || return 1
    # shellcheck disable=SC2046
    (cd "$work/archives" && apt-get "$@" -q download $(packages "$@"))
}

unpack_packages() {
    work=$dest.part
    rm -rf "$work"
    mkdir -p "$work/archives" "$work/lists/partial" "$work/cache/archives/partial" "$work/root/bin"
    # First with the system's package lists; where those are missing or out of date, with lists of our own, which need no rights.
    if ! fetch -o "Dir::Cache=$work/cache" 2>/dev/null; then
        own="-o Dir::State::Lists=$work/lists -o Dir::Cache=$work/cache"
        # shellcheck disable=SC2086
        apt-get $own -q update && fetch $own || return 1
    fi
    for archive in "$work"/archives/*.deb; do
        dpkg -x "$archive" "$work/root" || return 1
    done
    for tool in $tools; do
        # The programs find libLLVM by their run path; libLLVM finds its own libraries only by the environment.
        cat >"$work/root/bin/$tool" <<WRAPPER
#!/bin/sh
root=\${0%/*}/..
for folder in "\$root"/usr/lib/*-linux-gnu "\$root"/lib/*-linux-gnu; do
    [ -d "\$folder" ] && LD_LIBRARY_PATH="\$folder\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
done
export LD_LIBRARY_PATH
exec "\$root/usr/lib/llvm-$version/bin/$tool" "\$@"
WRAPPER
        chmod +x "$work/root/bin/$tool"
    done
    works "$work/root/bin/" "" || return 1
    rm -rf "$dest"
    mv "$work/root" "$dest"
    rm -rf "$work"
}

if [ -z "$unpack" ]; then
    on_path && exit 0
    [ -x "$dest/bin/llc" ] && works "$dest/bin/" "" && exit 0
fi
command -v apt-get >/dev/null 2>&1 || give_up "no apt-get"
if [ -z "$unpack" ] && [ "$(id -u)" = 0 ]; then
    install_packages && on_path && exit 0
fi
command -v dpkg >/dev/null 2>&1 || give_up "no dpkg"
unpack_packages || { rm -rf "$dest.part"; give_up "apt has no LLVM $version, or the download failed"; }
