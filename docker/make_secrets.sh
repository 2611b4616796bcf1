#!/bin/sh
# Makes the folder "$1" of secrets for compose.yaml; leaves one that is there alone, for the databases
# keep the passwords they were made with. The folder is its owner's only. The files in it are readable
# by all, for those who read them in containers are other users.
set -eu
folder=$1
[ -e "$folder" ] && exit 0

random() {
    head -c "$1" /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_'
}

umask 077
new=$folder.new
rm -rf "$new"
mkdir "$new"
airflow_database=$(random 24)
query_database=$(random 24)
s3=$(random 24)

printf %s "$airflow_database" >"$new/airflow_database_password"
printf %s "postgresql+psycopg2://airflow:$airflow_database@airflow-database:5432/airflow" >"$new/airflow_database_url"
printf %s "$(random 32)" >"$new/fernet_key"
printf %s "$(random 48)" >"$new/jwt_secret"
printf %s "$(random 12)" >"$new/admin_password"
printf %s "$query_database" >"$new/query_database_password"
printf %s continuous >"$new/s3_user"
printf %s "$s3" >"$new/s3_password"

# Between Spark's processes, which read it as SPARK_CONF_DIR: who does not know this cannot submit.
cat >"$new/spark-defaults.conf" <<END
spark.authenticate true
spark.authenticate.secret $(random 48)
spark.network.crypto.enabled true
END

# Airflow's connections, by its LocalFilesystemBackend.
cat >"$new/connections.json" <<END
{
  "spark_default": {
    "conn_type": "spark", "host": "spark://spark-master:7077", "extra": {"deploy-mode": "cluster"}
  },
  "kafka_default": {"conn_type": "kafka", "extra": {"bootstrap.servers": "kafka:9092"}},
  "postgres_default": {
    "conn_type": "postgres", "host": "query-database", "port": 5432, "schema": "continuous",
    "login": "continuous", "password": "$query_database"
  },
  "s3_default": {
    "conn_type": "aws", "login": "continuous", "password": "$s3",
    "extra": {"endpoint_url": "http://s3:9000", "region_name": "us-east-1"}
  }
}
END

chmod 0444 "$new"/*
mv "$new" "$folder"
