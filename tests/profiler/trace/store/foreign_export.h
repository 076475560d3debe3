#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <string>

#include "tests/profiler/trace/store/scratch.h"

namespace mptune::testing {

/// A file as Nsight Systems exports it, for tests that damage it: 100 kernels of 80 us on stream 7 of cuda:0, one every 100 us from 5 ms
/// on. Kernel i has the correlation 1000 + i and is launched 1 ms ahead.
///
///     calls     |l10|l11|l12| ...
///     stream 7  |k0 |k1 |k2 | ...
class ForeignExport : public Scratch {
 protected:
  ForeignExport() {
    std::filesystem::remove(path());
    run("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
        "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel'), (3, 'add');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, shortName INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
        "correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcDeviceId INTEGER, dstDeviceId INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
        "SELECT 5000000 + 100000 * i, 5080000 + 100000 * i, 0, 1, 7, 1000 + i, 0x1000001000000, 1 FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME "
        "SELECT 4000000 + 100000 * i, 4005000 + 100000 * i, 0x1000001000009, 1000 + i, 2 FROM n;");
  }

  void run(const std::string& sql) const { SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql); }
  [[nodiscard]] Trace read() const { return profiler::read_recording(path()).trace.value(); }
};

}  // namespace mptune::testing
