{{- define "angelia.labels" -}}
app.kubernetes.io/name: angelia
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "angelia.name" -}}
{{- printf "%s-%s" (.Release.Name | trunc 50 | trimSuffix "-") .part }}
{{- end }}

{{/* Metadata of one part: (dict "root" $ "part" "api"). */}}
{{- define "angelia.metadata" -}}
name: {{ include "angelia.name" (dict "Release" .root.Release "part" .part) }}
labels:
  {{- include "angelia.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .part }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "angelia.selector" -}}
{{- include "angelia.labels" .root }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* What every pod has. */}}
{{- define "angelia.pod" -}}
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What every container has, but for its image. */}}
{{- define "angelia.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end }}

{{/* What the chart itself sets, and where its value comes from. */}}
{{- define "angelia.own" -}}
ANGELIA_HOST: always 0.0.0.0
ANGELIA_PORT: always 8090, service.port is what clients see
ANGELIA_WORKER_ADDRESS: always 0.0.0.0:9400
ANGELIA_SPARK_MEMORY: spark.memory
ANGELIA_SPARK_OUTPUT: spark.output
{{- end }}

{{- define "angelia.env" -}}
{{- range $name, $from := include "angelia.own" . | fromYaml }}
{{- if or (hasKey $.Values.settings $name) (hasKey $.Values.secrets $name) }}
{{- fail (printf "The chart sets %s itself (%s): remove it from settings and secrets." $name $from) }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- if hasKey $.Values.secrets $name }}
{{- fail (printf "%s is in settings and in secrets: remove one of them." $name) }}
{{- end }}
{{- /* Helm reads all numbers as floats, and writes those from a million on as 1e+06. */}}
{{- if and (kindIs "float64" $value) (eq $value (floor $value)) }}
{{- $value = int64 $value }}
{{- end }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- range $name, $at := .Values.secrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $at.name }}, key: {{ $at.key }}}
{{- end }}
{{- end }}

{{- define "angelia.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- range $number, $file := .Values.secretFiles }}
- {name: secret-{{ $number }}, mountPath: {{ $file.path }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "angelia.volumes" -}}
- name: tmp
  emptyDir: {}
{{- range $number, $file := .Values.secretFiles }}
- name: secret-{{ $number }}
  # Of the group alone: libpq refuses keys that others can read.
  secret: {secretName: {{ $file.secret }}, defaultMode: 0440}
{{- end }}
{{- end }}

{{/* Where its pods run: (a part's values). */}}
{{- define "angelia.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* How many pods may be down; one of both keys, and a number set here replaces the other's default. */}}
{{- define "angelia.budget" -}}
{{- if not (kindIs "invalid" .maxUnavailable) -}}
maxUnavailable: {{ .maxUnavailable }}
{{- else -}}
minAvailable: {{ .minAvailable }}
{{- end }}
{{- end }}

{{/* Replicas are on different nodes, where there are several. */}}
{{- define "angelia.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "angelia.selector" . | nindent 8 }}
{{- end }}

{{- define "angelia.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
