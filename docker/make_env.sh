#!/bin/sh
# Writes the file "$1" with fresh secrets for compose.yaml, readable by its owner only; leaves one
# that is there alone, for the database keeps the password it was made with.
set -eu
file=$1
[ -e "$file" ] && exit 0

random() {
    head -c "$1" /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_'
}

umask 077
cat >"$file.new" <<END
# Made by docker/make_env.sh. Delete it only together with the volumes: docker/up.sh down --volumes
POSTGRES_PASSWORD=$(random 24)
ADMIN_PASSWORD=$(random 12)
FERNET_KEY=$(random 32)
JWT_SECRET=$(random 48)
END
mv "$file.new" "$file"
