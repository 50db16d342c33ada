# The image's entrypoint sources this file when the database is new. The job may only read, the feed may only fill.
docker_process_sql <<SQL
CREATE USER 'endmark_job'@'%' IDENTIFIED BY '$(cat "$MYSQL_JOB_PASSWORD_FILE")';
GRANT SELECT ON warehouse.* TO 'endmark_job'@'%';
CREATE USER 'endmark_loader'@'%' IDENTIFIED BY '$(cat "$MYSQL_LOADER_PASSWORD_FILE")';
GRANT SELECT, INSERT ON warehouse.* TO 'endmark_loader'@'%';
SQL
