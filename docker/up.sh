#!/bin/sh
# Starts everything in compose.yaml, and returns when it is healthy. With arguments: any other
# command of docker compose, such as `docker/up.sh logs --follow` or `docker/up.sh down`.
set -eu
cd "$(dirname "$0")"
command -v docker >/dev/null || {
    echo "up: docker is missing. Without it: make up" >&2
    exit 1
}
./make_secrets.sh secrets
if [ $# -gt 0 ]; then
    exec docker compose "$@"
fi
# The DAGs are mounted as they are, and read by another user than you.
closed=$(find ../dags ! -perm -o=r -o -type d ! -perm -o=x | head -n 1)
[ -z "$closed" ] || {
    echo "up: other users, as those in containers are, cannot read $PWD/$closed: chmod -R o+rX $PWD/../dags" >&2
    exit 1
}
docker compose build airflow-init # the image of Airflow and Spark
docker compose up --detach --wait
echo "Airflow:  http://127.0.0.1:8080   Spark:  http://127.0.0.1:8090"
echo "Login:    admin; the password is in $PWD/secrets/admin_password"
