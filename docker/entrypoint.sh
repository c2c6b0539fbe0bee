#!/bin/sh
# Starts the node: the settings of the image, the password from the environment, then the caller's own arguments.
#
#   (nothing) | valkey-server [FILE] [--setting value ...] | --setting value ...    the node
#   anything else                                                                  that command instead
#
# Before the node opens its port it is branded for wire 6, once and for all: a first server on a private socket loads the
# data, sets the brand if there is none, and ends; so no client of wire 4 can come first, whatever is kept on disk. A node
# of a cluster is not branded, since there the brand is per queue, nor is a replica, which has its primary's.
# The password is given to the server by a pipe: neither its command line nor a file holds it.
# Does not: run as root, change data, or overwrite a brand.
set -eu
. /usr/local/lib/echomq/node.sh

case ${1-} in
  -*) set -- valkey-server "$@" ;;
esac
[ "${1-}" = valkey-server ] || exec "$@"
shift

file=
case ${1-} in
  -v | --version | -h | --help | --test-memory | --check-system) exec valkey-server "$@" ;;
  '' | -*) ;;
  *)
    # The server takes one file by name, and that is ours.
    file=$1
    shift
    [ -r "$file" ] || die "cannot read the settings file $file"
    set -- --include "$file" "$@"
    ;;
esac

read_password
unset VALKEY_PASSWORD VALKEY_PASSWORD_FILE
settings=
if [ -n "$password" ]; then
  quoted=$(printf '%s' "$password" | sed 's/[\\"]/\\&/g')
  # The second is for a replica of a node like this one.
  settings="requirepass \"$quoted\"
primaryauth \"$quoted\""
else
  case ${ALLOW_EMPTY_PASSWORD-} in
    yes | true | 1) settings='protected-mode no' ;;
    '' | no | false | 0)
      say 'without a password it answers only from inside the container: set VALKEY_PASSWORD, VALKEY_PASSWORD_FILE or ALLOW_EMPTY_PASSWORD=yes'
      ;;
    *) die 'ALLOW_EMPTY_PASSWORD must be yes or no' ;;
  esac
fi

# The server's own reading: an argument that begins with -- begins a line.
lines() {
  for argument; do
    case $argument in
      --*) printf '\n%s' "${argument#--}" ;;
      *) printf ' %s' "$argument" ;;
    esac
  done
  echo
}

# True when the arguments or the settings file make it a node of a cluster, or a replica.
branded_elsewhere() {
  { [ -z "$file" ] || cat "$file"; lines "$@"; } | grep -Eiq '^[[:space:]]*(cluster-enabled[[:space:]]+"?yes|(replicaof|slaveof)[[:space:]])'
}

# Sets `reply`, as the user that is made below, on the first server's socket. In the background, since a shell hears a
# signal only while it waits, and a server that loads or saves may take its time.
ask() {
  valkey-cli -s "$RUN/first.sock" --user echomq-first --pass any --no-auth-warning "$@" >"$RUN/first.reply" 2>&1 &
  wait "$!" || :
  reply=$(cat "$RUN/first.reply")
}

brand() {
  log=$RUN/first.log
  # Its own settings come last and win: a socket of its own and no port, and a user of its own, whatever users there are.
  valkey-server "$CONF" "$@" --port 0 --tls-port 0 --unixsocket "$RUN/first.sock" --unixsocketperm 700 \
    --daemonize no --supervised no --logfile '' --aclfile '' \
    --user echomq-first on nopass resetchannels '~{emq}:version' -@all +set '+config|get' +shutdown \
    - >"$log" 2>&1 <<SETTINGS &
$settings
SETTINGS
  first=$!
  trap 'kill -TERM "$first"; wait "$first"; exit 143' TERM INT
  while :; do
    kill -0 "$first" 2>/dev/null || failed
    ask SET "$BRAND_KEY" "$BRAND" NX
    case $reply in
      LOADING* | 'Could not connect'*) sleep 0.02 ;;
      *) break ;;
    esac
  done
  keep=NOSAVE
  case $reply in
    # The append-only file has it already; without one it has to be saved, or the server would end and forget it.
    OK)
      ask CONFIG GET appendonly
      case $reply in *yes) ;; *) keep=SAVE ;; esac
      ;;
    '') ;; # it has a brand, ours or another: the health check and the clients tell
    *) say "the node could not be branded: $reply" ;;
  esac
  # A server that could not save answers and goes on; one that ends says nothing.
  ask SHUTDOWN "$keep"
  case $reply in
    ERR*) kill -KILL "$first" ;;
  esac
  wait "$first" || failed
  trap - TERM INT
  rm -f "$log" "$RUN/first.reply"
}

# The first server would not start, or could not save: what it said is what the operator needs.
failed() {
  cat "$log" >&2
  die "the server cannot start with these settings on these data (user $(id -u), /data $(stat -c 'of user %u, mode %a' /data))"
}

branded_elsewhere "$@" || brand "$@"

exec valkey-server "$CONF" "$@" - <<SETTINGS
$settings
SETTINGS
