{{- define "endmark.labels" -}}
app.kubernetes.io/name: endmark
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "endmark.pipelineName" -}}
{{- (required "give the pipeline file: --set-file pipeline=FILE" .Values.pipeline | fromYaml).name -}}
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
- {name: data, mountPath: /data}
- {name: pipeline, mountPath: /etc/endmark, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "endmark.volumes" -}}
- name: data
  persistentVolumeClaim: {claimName: {{ .Values.claim }}}
- name: pipeline
  configMap: {name: {{ .Release.Name }}-pipeline}
- name: tmp
  emptyDir: {}
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
  - --bootstrap={{ required "give Kafka's host:port: --set bootstrap=..." .Values.bootstrap }}
  - --warehouse=/data/warehouse
  - --checkpoint=/data/checkpoint
  - --buckets={{ .Values.job.buckets }}
  - --set=batch.every={{ .Values.job.triggerSeconds }}s
  - --set=batch.records={{ int64 .Values.job.maxRecordsPerBatch }}
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
  envSecretKeyRefs: {{- include "endmark.urls" . | nindent 4 }}
  podSecurityContext: {{- include "endmark.pod" . | nindent 4 }}
  securityContext: {{- include "endmark.container" . | nindent 4 }}
  volumeMounts: {{- include "endmark.mounts" . | nindent 4 }}
  # Stopping waits for the batch at hand.
  terminationGracePeriodSeconds: 90
executor:
  instances: {{ .Values.job.executors.instances }}
  cores: {{ .Values.job.executors.cores }}
  coreLimit: {{ printf "%v" .Values.job.executors.cores | quote }}
  memory: {{ .Values.job.executors.memory }}
  memoryOverhead: {{ .Values.job.executors.memoryOverhead }}
  labels: {{- include "endmark.labels" . | nindent 4 }}
    app.kubernetes.io/component: job
  podSecurityContext: {{- include "endmark.pod" . | nindent 4 }}
  securityContext: {{- include "endmark.container" . | nindent 4 }}
  volumeMounts: {{- include "endmark.mounts" . | nindent 4 }}
volumes: {{- include "endmark.volumes" . | nindent 2 }}
{{- end -}}
