#include "profiler/trace/store/nsight_devices.h"

#include <gmock/gmock.h>

#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/quality_objection.h"
#include "tests/profiler/trace/store/foreign_export.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;

/// ForeignExport has 100 kernels of process 1 on its device 0, 80 of each 100 us.
class NsightDevicesTest : public testing::ForeignExport {
 protected:
  /// Kernels of another process, 40 of each 100 us, `shift_ns` after those of the first.
  void add_process(std::int64_t process, std::int64_t device, std::int64_t shift_ns) const {
    const std::string pid = std::to_string(1LL << 48 | process << 24), shift = std::to_string(shift_ns);
    run("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT "
        "5000000 + " +
        shift + " + 100000 * i, 5040000 + " + shift + " + 100000 * i, " + std::to_string(device) + ", 1, 7, 1000 + i, " + pid +
        ", 1 FROM n;"
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT "
        "4000000 + 100000 * i, "
        "4005000 + 100000 * i, " +
        pid + " + 9, 1000 + i, 2 FROM n;");
  }
  void map(const std::string& rows) const {
    run("CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT);"
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES " +
        rows);
  }
  static std::vector<std::pair<std::string, int>> busy_us(const Trace& trace) {
    std::vector<std::pair<std::string, int>> all;
    const Breakdown breakdown = break_down(trace);
    for (std::size_t d = 0; d < trace.devices.size(); ++d)
      all.emplace_back(trace.devices[d].name, static_cast<int>(mean_over_steps(breakdown, static_cast<int>(d)).compute.count() / 1000));
    return all;
  }
};

TEST_F(NsightDevicesTest, EveryProcessHasItsGpu) {
  add_process(2, 0, 0);
  map("(0, 0, 1, 'a'), (3, 0, 2, 'b')");
  run("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, uuid TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, "
      "'first', 5, 'a'), (3, 'last', 6, 'b')");
  const Trace trace = read();
  EXPECT_THAT(busy_us(trace), ElementsAre(std::pair("cuda:0", 8000), std::pair("cuda:3", 4000)));
  EXPECT_EQ(trace.devices[1].description, "last");
  EXPECT_EQ(trace.quality.ambiguous, 0);
  EXPECT_FALSE(quality_objection(trace));
}

TEST_F(NsightDevicesTest, TwoNumbersOfOneGpuAreOneDevice) {
  add_process(2, 1, 50'000);
  map("(4, 0, 1, 'a'), (4, 1, 2, 'a')");
  EXPECT_THAT(busy_us(read()), ElementsAre(std::pair("cuda:4", 9000)));
}

TEST_F(NsightDevicesTest, NumbersThatMeanOneGpuEachAreKept) {
  add_process(2, 1, 0);
  map("(6, 0, 1, 'a'), (7, 1, 2, 'b')");
  EXPECT_THAT(busy_us(read()), ElementsAre(std::pair("cuda:0", 8000), std::pair("cuda:1", 4000)));
}

TEST_F(NsightDevicesTest, PartsOfAGpuAreDevices) {
  add_process(2, 0, 0);
  map("(0, 0, 1, 'MIG-1'), (0, 0, 2, 'MIG-2')");
  EXPECT_THAT(busy_us(read()), ElementsAre(std::pair("cuda:0", 8000), std::pair("cuda:1", 4000)));
}

TEST_F(NsightDevicesTest, AMissingGpuIsFoundByItsIdentifier) {
  add_process(2, 0, 0);
  map("(NULL, 0, 1, 'a'), (NULL, 0, 2, 'b')");
  run("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, uuid TEXT); INSERT INTO TARGET_INFO_GPU VALUES (2, 'x', "
      "5, 'a'), (3, 'y', 6, 'b')");
  EXPECT_THAT(busy_us(read()), ElementsAre(std::pair("cuda:2", 8000), std::pair("cuda:3", 4000)));
}

TEST_F(NsightDevicesTest, WhatNothingExplainsIsAmbiguousWhereItOverlaps) {
  add_process(2, 0, 0);
  const Trace trace = read();
  EXPECT_EQ(trace.quality.ambiguous, 200);
  ASSERT_TRUE(quality_objection(trace));
  EXPECT_EQ(quality_objection(trace)->loss, QualityObjection::Loss::ambiguous);
}

TEST_F(NsightDevicesTest, ProcessesThatTakeTurnsAreNot) {
  add_process(2, 0, 100'000 * 100);
  EXPECT_EQ(read().quality.ambiguous, 0);
  add_process(3, 1, 0);
  EXPECT_EQ(read().quality.ambiguous, 0) << "another number is another device";
}

TEST_F(NsightDevicesTest, CopiesGoToTheGpuThatTheirProcessMeans) {
  add_process(2, 0, 0);
  map("(0, 0, 1, 'a'), (1, 0, 2, 'b'), (0, 1, 2, 'a')");
  run("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (6000000, 6001000, 0, 1, 9, 0, 0x1000002000000, 64, 10, 0, 1)");
  const Trace trace = read();
  EXPECT_THAT(trace.copies, ElementsAre(Copy{.bytes = 64, .source = 1, .destination = 0}));
}

}  // namespace
}  // namespace mptune::profiler
