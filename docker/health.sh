#!/bin/sh
# The health check: the node answers, has the module, and carries the brand of wire 6 (in a cluster the brand is per queue,
# so there is none to look for). Exit code 0 or 1, and one line that says why.
# The password comes from the environment; given in any other way it is not known here, and then an answer that asks for it
# is all that can be checked.
set -eu
. /usr/local/lib/echomq/node.sh

read_password
[ -z "$password" ] || export REDISCLI_AUTH="$password"

ask() {
  valkey-cli -s "$SOCKET" "$@" 2>&1
}

sick() {
  echo "$*"
  exit 1
}

reply=$(ask PING) || :
case $reply in
  PONG) ;;
  NOAUTH*)
    [ -z "$password" ] || sick "the password in the environment is refused: $reply"
    echo 'answers; module and brand not checked, since its password is not in the environment of the container'
    exit 0
    ;;
  *) sick "no answer: $reply" ;;
esac
ask MODULE LIST | grep -qx trafikey || sick 'the module trafikey is not loaded'
if ! ask INFO cluster | grep -q '^cluster_enabled:1'; then
  brand=$(ask GET "$BRAND_KEY")
  [ "$brand" = "$BRAND" ] || sick "the brand is '$brand', wire 6 needs $BRAND (see emq doctor)"
fi
echo ok
