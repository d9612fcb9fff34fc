"""An admission webhook that makes the user the captain of each ship. docs/how-to/custom-resources.md uses it.

    python3 examples/webhook.py CERTIFICATE KEY
"""

import base64
import http.server
import json
import ssl
import sys


class Webhook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        response = {"uid": request["uid"], "allowed": True}
        if "captain" not in request["object"]["spec"]:
            patch = [{"op": "add", "path": "/spec/captain", "value": request["userInfo"]["username"]}]
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("localhost", 9443), Webhook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
