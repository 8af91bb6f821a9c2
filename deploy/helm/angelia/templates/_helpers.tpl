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

{{- define "angelia.env" -}}
{{- range $name, $value := .Values.settings }}
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
  secret: {secretName: {{ $file.secret }}}
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
