{{- define "endmark.labels" -}}
app.kubernetes.io/name: endmark
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{/* The section `kafka` of a file. It takes the root, and the part that logs in: job or operator. */}}
{{- define "endmark.kafka" -}}
{{- $kafka := .root.Values.kafka -}}
{{- $user := get $kafka .part -}}
kafka:
  bootstrap: {{ required "give Kafka's addresses: --set kafka.bootstrap=HOST:PORT" $kafka.bootstrap | quote }}
{{- if $kafka.tls.enabled }}
  {{- $files := dict }}
  {{- if $kafka.tls.ca }}
  {{- $files = set $files "ca" "/run/secrets/kafka-ca/ca.crt" }}
  {{- end }}
  {{- if $kafka.tls.certificates }}
  {{- $files = merge $files (dict "certificate" "/run/secrets/kafka/tls.crt" "key" "/run/secrets/kafka/tls.key") }}
  {{- end }}
  tls: {{ toJson $files }}
{{- end }}
{{- if $kafka.sasl.mechanism }}
  sasl:
    mechanism: {{ $kafka.sasl.mechanism }}
    user: {{ required (printf "give a user for the login: --set kafka.%s.user=NAME" .part) $user.user | quote }}
    password: ${KAFKA_PASSWORD}
    {{- with $kafka.sasl.tokenUrl }}
    token_url: {{ . | quote }}
    {{- end }}
    {{- with $kafka.sasl.scope }}
    scope: {{ . | quote }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The job's file: the section `kafka`, and the file of the values. */}}
{{- define "endmark.pipeline" -}}
{{- $text := required "give the pipeline file: --set-file pipeline=FILE" .Values.pipeline -}}
{{- $fields := fromYaml $text -}}
{{- if hasKey $fields "Error" -}}
{{- fail (printf "the pipeline file is no YAML: %s" $fields.Error) -}}
{{- end -}}
{{- if hasKey $fields "kafka" -}}
{{- fail "the pipeline file has a section kafka; remove it, and give the values of kafka" -}}
{{- end -}}
{{- include "endmark.kafka" (dict "root" . "part" "job") }}
{{ $text }}
{{- end -}}

{{/* The variable of a part's password, where it logs in. */}}
{{- define "endmark.password" -}}
{{- if .Values.kafka.sasl.mechanism -}}
- {name: KAFKA_PASSWORD_FILE, value: /run/secrets/kafka/password}
{{- end -}}
{{- end -}}

{{/* The authorities of the databases, for the parts that connect to one: driver, executors and sidecar. */}}
{{- define "endmark.databaseMounts" -}}
{{- if .Values.databaseCa }}
- {name: database-ca, mountPath: /run/secrets/database-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "endmark.databaseVolumes" -}}
{{- with .Values.databaseCa }}
- {name: database-ca, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end -}}

{{- define "endmark.loginMounts" -}}
{{- if and .Values.kafka.tls.enabled .Values.kafka.tls.ca }}
- {name: kafka-ca, mountPath: /run/secrets/kafka-ca, readOnly: true}
{{- end }}
{{- if or .Values.kafka.sasl.mechanism .Values.kafka.tls.certificates }}
- {name: kafka, mountPath: /run/secrets/kafka, readOnly: true}
{{- end }}
{{- end -}}

{{- define "endmark.loginVolumes" -}}
{{- $kafka := .root.Values.kafka -}}
{{- if and $kafka.tls.enabled $kafka.tls.ca }}
- {name: kafka-ca, secret: {secretName: {{ $kafka.tls.ca }}, defaultMode: 0440}}
{{- end }}
{{- if or $kafka.sasl.mechanism $kafka.tls.certificates }}
{{- $secret := (get $kafka .part).secret }}
{{- $secret = required (printf "give the secret of a login: --set kafka.%s.secret=NAME" .part) $secret }}
- {name: kafka, secret: {secretName: {{ $secret }}, defaultMode: 0440}}
{{- end }}
{{- end -}}

{{/* The place of tables and checkpoint: a URL, or a directory. */}}
{{- define "endmark.place" -}}
{{- .Values.store.url | default "/data" | trimSuffix "/" -}}
{{- end -}}

{{- define "endmark.storeCredentials" -}}
{{- if .Values.store.url -}}
- secretRef: {name: {{ required "give the secret of the object store: --set store.secret=NAME" .Values.store.secret }}}
{{- end -}}
{{- end -}}

{{/* The secrets of those who read the pipeline file. Executors do not. */}}
{{- define "endmark.variables" -}}
{{- include "endmark.storeCredentials" . }}
{{- with .Values.variables }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- end -}}

{{- define "endmark.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "endmark.pod" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "endmark.urls" -}}
ENDMARK_RELATION_URL: {name: {{ .Values.secret }}, key: relation-url}
ENDMARK_OPS_URL: {name: {{ .Values.secret }}, key: ops-url}
{{- end -}}

{{- define "endmark.mounts" -}}
{{- if not .Values.store.url }}
- {name: data, mountPath: /data}
{{- end }}
- {name: pipeline, mountPath: /etc/endmark, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "endmark.volumes" -}}
{{- if not .Values.store.url }}
- name: data
  persistentVolumeClaim: {claimName: {{ .Values.claim }}}
{{- end }}
- name: pipeline
  configMap: {name: {{ .Release.Name }}-pipeline}
- name: tmp
  emptyDir: {}
{{- include "endmark.loginVolumes" (dict "root" . "part" "job") }}
{{- end -}}

{{/* The job, of a SparkApplication or of the template of a scheduled one. */}}
{{- define "endmark.job" -}}
type: Python
pythonVersion: "3"
mode: cluster
sparkVersion: 4.2.1
image: {{ .Values.images.job }}
imagePullPolicy: {{ .Values.images.pullPolicy }}
mainApplicationFile: local:///opt/endmark/pipeline.py
arguments:
  - run
  - /etc/endmark/pipeline.yaml
  - --warehouse={{ include "endmark.place" . }}/warehouse
  - --checkpoint={{ include "endmark.place" . }}/checkpoint
  - --buckets={{ .Values.job.buckets }}
{{- with .Values.job.triggerSeconds }}
  - --set=batch.every={{ . }}s
{{- end }}
{{- with .Values.job.maxRecordsPerBatch }}
  - --set=batch.records={{ int64 . }}
{{- end }}
{{- if .Values.schedule }}
  - --available-now
{{- end }}
sparkConf:
  # Of every run a new one, which Spark makes and hands out by itself.
  spark.authenticate: "true"
  spark.network.crypto.enabled: "true"
  spark.driver.extraClassPath: /opt/endmark/jars/*
  spark.executor.extraClassPath: /opt/endmark/jars/*
  spark.kubernetes.submission.waitAppCompletion: "false"
driver:
  cores: {{ .Values.job.driver.cores }}
  coreLimit: {{ printf "%v" .Values.job.driver.cores | quote }}
  memory: {{ .Values.job.driver.memory }}
  memoryOverhead: {{ .Values.job.driver.memoryOverhead }}
  serviceAccount: {{ .Release.Name }}-driver
  labels: {{- include "endmark.labels" . | nindent 4 }}
    app.kubernetes.io/component: job
  # The driver reads the file when it starts, and the operator starts it anew only if this object changes.
  annotations:
    checksum/pipeline: {{ include "endmark.pipeline" . | sha256sum }}
  envSecretKeyRefs: {{- include "endmark.urls" . | nindent 4 }}
  {{- with include "endmark.password" . }}
  env: {{- . | nindent 4 }}
  {{- end }}
  {{- with include "endmark.variables" . }}
  envFrom: {{- . | nindent 4 }}
  {{- end }}
  podSecurityContext: {{- include "endmark.pod" . | nindent 4 }}
  securityContext: {{- include "endmark.container" . | nindent 4 }}
  volumeMounts: {{- include "endmark.mounts" . | nindent 4 }}
    {{- include "endmark.loginMounts" . | nindent 4 }}
    {{- include "endmark.databaseMounts" . | nindent 4 }}
  # Stopping waits for the batch at hand.
  terminationGracePeriodSeconds: 90
executor:
  instances: {{ .Values.job.executors.instances }}
  cores: {{ .Values.job.executors.cores }}
  coreLimit: {{ printf "%v" .Values.job.executors.cores | quote }}
  memory: {{ .Values.job.executors.memory }}
  memoryOverhead: {{ .Values.job.executors.memoryOverhead }}
  serviceAccount: {{ .Release.Name }}-executor
  labels: {{- include "endmark.labels" . | nindent 4 }}
    app.kubernetes.io/component: job
  {{- with include "endmark.storeCredentials" . }}
  envFrom: {{- . | nindent 4 }}
  {{- end }}
  podSecurityContext: {{- include "endmark.pod" . | nindent 4 }}
  securityContext: {{- include "endmark.container" . | nindent 4 }}
  volumeMounts: {{- include "endmark.mounts" . | nindent 4 }}
    {{- include "endmark.databaseMounts" . | nindent 4 }}
volumes: {{- include "endmark.volumes" . | nindent 2 }}
  {{- include "endmark.databaseVolumes" . | nindent 2 }}
{{- end -}}
