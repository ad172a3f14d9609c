{{- define "neurogc-hub.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "neurogc-hub.labels" -}}
app.kubernetes.io/name: neurogc-hub
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "neurogc-hub.selector" -}}
app.kubernetes.io/name: neurogc-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "neurogc-hub.secret" -}}
{{- .Values.existingSecret | default (include "neurogc-hub.name" .) -}}
{{- end -}}
