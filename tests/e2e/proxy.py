"""Stands between a client and the daemon's socket: proxy.py LISTEN UPSTREAM.

Says "ready" when it listens. Who stops it makes a connection that is half open; who kills it, one that breaks.
"""

import asyncio
import sys


async def pass_on(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()


async def serve(reader, writer):
    try:
        up_reader, up_writer = await asyncio.open_unix_connection(sys.argv[2])
    except OSError:
        writer.close()
        return
    await asyncio.gather(pass_on(reader, up_writer), pass_on(up_reader, writer))


async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
