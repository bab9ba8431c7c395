#!/usr/bin/env bash
# Unpacks the OpenSSH client and the git of Debian 13 with their libraries into .cache/debian-13, for tests; nothing is
# installed. The packages come from this machine's Debian mirror and are verified with Debian's keys.
set -euo pipefail
cd "$(dirname "$0")/.."

target=.cache/debian-13
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [[ -x $target/bin/git ]]; then exit; fi

give_up() {
  echo "The programs of Debian 13 are not available: $1" >&2
  exit 1
}

debian=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get update --print-uris | sed -n "s|^'\(.*\)/dists/$debian/main/binary-.*|\1|p" | head -n 1) || true
[[ -n $mirror ]] || give_up 'this machine has no Debian mirror configured.'
[[ -e $keyring ]] || give_up 'the package debian-archive-keyring is not installed.'

unpacked=$target.$$
state=$(mktemp -d)
trap 'rm -rf "$state" "$unpacked"' EXIT
# apt downloads as its own user.
chmod 755 "$state"
mkdir -p "$state/sources" "$state/lists/partial" "$state/archives/partial" "$unpacked/bin"
# An empty list of installed packages, so that apt downloads all dependencies, the C library included.
touch "$state/status"
echo "deb [signed-by=$keyring target=Packages] $mirror trixie main" >"$state/sources.list"
apt=(apt-get -qq -o Acquire::Retries=3
  -o "Dir::Etc::SourceList=$state/sources.list" -o "Dir::Etc::SourceParts=$state/sources"
  -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state")
"${apt[@]}" -o APT::Update::Error-Mode=any update || give_up 'download of the package index of Debian 13 failed.'
"${apt[@]}" --yes --no-install-recommends --download-only install openssh-client git >/dev/null ||
  give_up 'download of its packages failed.'
for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$unpacked"; done

# With their own loader and libraries: those of this machine may be too old.
run_with_own_libraries() {
  local place=$1 program=$2
  cat >"$place" <<END
#!/bin/sh
usr=\$(dirname "\$0")/$(realpath --relative-to="$(dirname "$place")" "$unpacked/usr")
export GIT_EXEC_PATH="\$usr/lib/git-core" GIT_TEMPLATE_DIR="\$usr/share/git-core/templates"
for loader in "\$usr"/lib/*/ld-linux-*.so.*; do
  exec "\$loader" --argv0 "\$0" --library-path "\${loader%/*}" "\$usr/$program" "\$@"
done
END
  chmod 755 "$place"
}
for program in ssh ssh-keygen git; do run_with_own_libraries "$unpacked/bin/$program" "bin/$program"; done
for helper in git git-remote-http git-daemon git-http-backend; do
  core=$unpacked/usr/lib/git-core
  mv "$core/$helper" "$core/$helper.real"
  run_with_own_libraries "$core/$helper" "lib/git-core/$helper.real"
done
"$unpacked/bin/ssh" -V 2>&1 | grep '^OpenSSH_10' || give_up 'it does not run here.'

# Last and atomic: an existing directory is complete.
rm -rf "$target"
mv "$unpacked" "$target"
