"""A worker process that is started before there is a plan."""

import asyncio
from dataclasses import replace

from sgl_core.engine.messages import Fatal, Ready
from sgl_core.engine.process import ProcessChannel
from sgl_core.engine.worker_process import WorkerProcess

SECONDS = 30
PRELOAD = "sgl_core.engine.null_worker:probe"


def preloaded(target):
    worker = WorkerProcess()
    worker.preload(target)
    return worker


def first_message(plan, worker, kind):
    """The first message of that kind, and the process that sent it."""

    async def run():
        channel = ProcessChannel(plan, started=worker)
        try:
            while not isinstance(message := await asyncio.wait_for(channel.recv(), SECONDS), kind):
                assert not isinstance(message, Fatal), message
            return message, channel.pid
        finally:
            channel.close()

    return asyncio.run(run())


def test_a_plan_given_later_is_served_by_the_same_process(null_plan):
    worker = preloaded(PRELOAD)
    _, pid = first_message(null_plan(), worker, Ready)
    assert pid == worker.process.pid
    assert not worker.process.is_alive()


def test_a_plan_with_variables_of_libraries_gets_a_process_that_imported_nothing(null_plan):
    worker = preloaded(PRELOAD)
    assert worker.suits({"SGL_A": "1", "SGLANG_B": "1"})
    _, pid = first_message(replace(null_plan(), env={"OMP_NUM_THREADS": "1"}), worker, Ready)
    assert pid != worker.process.pid
    assert not worker.process.is_alive()


def test_a_preload_that_fails_is_told(null_plan):
    message, _ = first_message(null_plan(), preloaded("json:no_such_name"), Fatal)
    assert "no_such_name" in message.message
    assert "Traceback" in message.traceback


def test_without_a_plan_it_ends_by_itself():
    worker = WorkerProcess()
    worker.link.close()
    worker.process.join(SECONDS)
    assert worker.process.exitcode == 0
    worker.close()
    worker.close()
