"""Makes one executable file of the plugin: python build.py FILE.

The file is a zip archive that the Python which made it runs. The packages of
requirements.txt must be there for that Python: grpcio has parts in C, which
cannot run from an archive.
"""

import pathlib
import shutil
import sys
import tempfile
import zipapp

from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE / "../../../sdkproto/plugin/pb/v1"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        code = protoc.main(
            ["protoc", f"-I{PROTO}", f"--python_out={folder}", f"--grpc_python_out={folder}", str(PROTO / "plugin.proto")]
        )
        if code != 0:
            sys.exit(code)
        shutil.copy(HERE / "echo_plugin.py", folder)
        zipapp.create_archive(folder, sys.argv[1], interpreter=sys.executable, main="echo_plugin:main")


if __name__ == "__main__":
    main()
