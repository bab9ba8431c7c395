#!/usr/bin/env bash
# Unpacks the OpenSSH client of Debian 13 with all its libraries into .cache/openssh-10, for the tests to speak to
# the server with: nothing is installed. It comes from this machine's mirror of Debian and is checked with Debian's keys.
set -euo pipefail
cd "$(dirname "$0")/.."

target=.cache/openssh-10
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [[ -x $target/bin/ssh ]]; then exit; fi

give_up() {
  echo "OpenSSH 10 cannot be had: $1" >&2
  exit 1
}

debian=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get update --print-uris | sed -n "s|^'\(.*\)/dists/$debian/main/binary-.*|\1|p" | head -n 1) || true
[[ -n $mirror ]] || give_up 'this machine has no mirror of Debian configured.'
[[ -e $keyring ]] || give_up 'it needs the package debian-archive-keyring.'

unpacked=$target.$$
state=$(mktemp -d)
trap 'rm -rf "$state" "$unpacked"' EXIT
# For apt, which downloads as a user of its own.
chmod 755 "$state"
mkdir -p "$state/sources" "$state/lists/partial" "$state/archives/partial" "$unpacked/bin"
# An apt that knows nothing of what is installed here, so that it fetches the libraries down to the C library.
touch "$state/status"
echo "deb [signed-by=$keyring target=Packages] $mirror trixie main" >"$state/sources.list"
apt=(apt-get -qq -o Acquire::Retries=3
  -o "Dir::Etc::SourceList=$state/sources.list" -o "Dir::Etc::SourceParts=$state/sources"
  -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state")
"${apt[@]}" -o APT::Update::Error-Mode=any update || give_up 'the index of Debian 13 did not arrive.'
"${apt[@]}" --yes --no-install-recommends --download-only install openssh-client >/dev/null ||
  give_up 'its packages did not arrive.'
for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$unpacked"; done

# With the loader and the libraries that it came with; those of this machine may be older than it needs.
for program in ssh ssh-keygen; do
  cat >"$unpacked/bin/$program" <<'END'
#!/bin/sh
usr=${0%/*}/../usr
for loader in "$usr"/lib/*/ld-linux-*.so.*; do
  exec "$loader" --library-path "${loader%/*}" "$usr/bin/${0##*/}" "$@"
done
END
  chmod 755 "$unpacked/bin/$program"
done
"$unpacked/bin/ssh" -V 2>&1 | grep '^OpenSSH_10' || give_up 'it does not run here.'

# Last and at once: a folder that is there is whole.
rm -rf "$target"
mv "$unpacked" "$target"
