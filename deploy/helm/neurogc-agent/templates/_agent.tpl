{{- /*
The agent in the pods of your own charts: name this chart as a dependency, as ../example-service does.
`initContainer` takes `image`; `env` takes `service`, `hub`, `secret` and, if you like, `policy`.
*/ -}}

{{- define "neurogc-agent.initContainer" -}}
- name: neurogc
  image: {{ .image | quote }}
  command: ["cp", "-r", "/opt/neurogc", "/neurogc/"]
  resources:
    requests:
      cpu: 10m
      memory: 16Mi
    limits:
      memory: 64Mi
  securityContext:
    allowPrivilegeEscalation: false
    capabilities:
      drop: ["ALL"]
  volumeMounts:
    - name: neurogc
      mountPath: /neurogc
{{- end -}}

{{- define "neurogc-agent.env" -}}
- name: NEUROGC_SERVICE
  value: {{ .service | quote }}
- name: NEUROGC_POLICY
  value: {{ .policy | default "observe" | quote }}
- name: NEUROGC_HUB
  value: {{ .hub | quote }}
- name: NEUROGC_HUB_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: token
{{- end -}}

{{- define "neurogc-agent.volumeMount" -}}
- name: neurogc
  mountPath: /neurogc
  readOnly: true
{{- end -}}

{{- define "neurogc-agent.volume" -}}
- name: neurogc
  emptyDir: {}
{{- end -}}
