{{- define "kai-ray.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kai-ray.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kai-ray.labels" -}}
{{ include "kai-ray.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kai-ray
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "kai-ray.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "kai-ray.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The node agents: their account, rights and DaemonSet. */}}
{{- define "kai-ray.agent" -}}
{{- printf "%s-agent" (include "kai-ray.fullname" . | trunc 57 | trimSuffix "-") -}}
{{- end -}}

{{- define "kai-ray.image" -}}
{{- with .Values.image -}}
{{- with .registry }}{{ . }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The host by which the API server reaches the webhook. */}}
{{- define "kai-ray.webhookHost" -}}
{{- with .Values.admission.webhook.url -}}
{{- get (urlParse .) "hostname" | replace "[" "" | replace "]" "" -}}
{{- else -}}
{{- printf "%s.%s.svc" (include "kai-ray.fullname" .) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* Version of MutatingAdmissionPolicy that the server has on; empty if none. */}}
{{- define "kai-ray.mutatingPolicies" -}}
{{- $group := "admissionregistration.k8s.io" -}}
{{- if .Capabilities.APIVersions.Has (printf "%s/v1/MutatingAdmissionPolicy" $group) -}}v1
{{- else if .Capabilities.APIVersions.Has (printf "%s/v1beta1/MutatingAdmissionPolicy" $group) -}}v1beta1
{{- end -}}
{{- end -}}

{{/* A file of ours, with the names of this release in it. */}}
{{- define "kai-ray.file" -}}
{{- $root := index . 0 -}}
{{- $root.Files.Get (index . 1)
    | replace "@schedulerName@" $root.Values.schedulerName
    | replace "@namespace@" $root.Release.Namespace
    | replace "@lease@" (include "kai-ray.fullname" $root)
    | replace "@service@" (include "kai-ray.fullname" $root)
    | replace "@agent@" (include "kai-ray.agent" $root)
    | replace "@secret@" $root.Values.admission.webhook.secret -}}
{{- end -}}
