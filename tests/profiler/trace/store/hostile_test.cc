#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/profiler/trace/store/scratch.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

class Hostile : public testing::Scratch {
 protected:
  Hostile() { write_hand_made(); }

  void change(const std::string& sql) const { SQLite::Database(path(), SQLite::OPEN_READWRITE).exec(sql); }

  void put(const std::string& content) const { std::ofstream(path(), std::ios::binary | std::ios::trunc) << content; }

  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] std::string refusal() const {
    const Error error = testing::error_of([&] { (void)read_recording(path()); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.problem();
  }

  void expect_refusal(const std::string& sql, const std::string& part) const { expect_refusal_of(testing::hand_trace(), sql, part); }

  void expect_refusal_of(const Trace& trace, const std::string& sql, const std::string& part) const {
    write_recording({.trace = trace, .profile = testing::hand_profile()}, path(), true);
    change(sql);
    EXPECT_NE(refusal().find(part), std::string::npos) << sql << " -> " << refusal();
  }

  // Read as an export that others made.
  void expect_foreign_refusal(const std::string& sql, const std::string& part) const {
    expect_refusal_of(testing::gpu_trace(), "DROP TABLE MPTUNE_META; " + sql, part);
  }
};

TEST_F(Hostile, OtherFiles) {
  EXPECT_THROW((void)read_recording(path("absent")), Error);
  EXPECT_THROW((void)read_recording(""), Error);
  EXPECT_THROW((void)read_recording(":memory:"), Error);
  EXPECT_THROW((void)read_recording(std::filesystem::path(path()).parent_path().string()), Error);
  put("");
  EXPECT_NE(refusal().find("empty"), std::string::npos);
  put("x");
  EXPECT_NE(refusal().find("not an SQLite file"), std::string::npos);
  put(std::string(10000, 'x'));
  EXPECT_NE(refusal().find("not an SQLite file"), std::string::npos);
}

TEST_F(Hostile, TruncatedAnywhere) {
  const std::string whole = bytes();
  for (const std::size_t size :
       {whole.size() - 1, whole.size() - 4096, whole.size() / 2, std::size_t{4096}, std::size_t{100}, std::size_t{20}}) {
    put(whole.substr(0, size));
    EXPECT_NE(refusal().find("truncated"), std::string::npos) << size;
  }
}

TEST_F(Hostile, AnotherProgramsDatabase) {
  std::filesystem::remove(path());
  SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE cats (name TEXT)");
  EXPECT_NE(refusal().find("neither"), std::string::npos);
}

TEST_F(Hostile, AnotherVersion) {
  change("UPDATE MPTUNE_META SET value = '1000' WHERE name = 'schema_minor'");
  EXPECT_NO_THROW((void)read_recording(path()));
  change("UPDATE MPTUNE_META SET value = '2' WHERE name = 'schema_major'");
  EXPECT_NE(refusal().find("newer"), std::string::npos);
  change("UPDATE MPTUNE_META SET value = '99999999999999999999' WHERE name = 'schema_major'");
  EXPECT_FALSE(refusal().empty());
  change("DELETE FROM MPTUNE_META");
  EXPECT_FALSE(refusal().empty());
}

TEST_F(Hostile, WrongTypes) {
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "start");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1.5", "end");
  expect_refusal("UPDATE MPTUNE_EVENT SET what = 'forward'", "what");
  expect_refusal("UPDATE MPTUNE_DEVICE SET name = 7; UPDATE MPTUNE_DEVICE SET name = x'00'", "name");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET value = 'fast'", "value");
  expect_refusal("UPDATE StringIds SET value = x'ff00'", "value");
  expect_refusal("UPDATE NVTX_EVENTS SET end = NULL", "end");
}

TEST_F(Hostile, InvalidIndices) {
  expect_refusal("UPDATE MPTUNE_EVENT SET what = 200", "kind");
  expect_refusal("UPDATE MPTUNE_EVENT SET what = -1", "kind");
  expect_refusal("UPDATE MPTUNE_EVENT SET name = 1000000", "name");
  expect_refusal("UPDATE MPTUNE_EVENT SET tag = 1000000", "tag");
  expect_refusal("UPDATE MPTUNE_EVENT SET device = 2", "device");
  expect_refusal("UPDATE MPTUNE_EVENT SET device = 70000", "device");
  expect_refusal("UPDATE MPTUNE_EVENT SET lane = 256", "lane");
  expect_refusal("UPDATE MPTUNE_EDGE SET consumer = -5", "edge");
  expect_refusal("UPDATE MPTUNE_EDGE SET kind = 9", "edge");
  expect_refusal("UPDATE MPTUNE_LAUNCH SET event = 99999999999", "event");
  expect_refusal("UPDATE MPTUNE_LAYER_COST SET layer = 2", "layer");
  expect_refusal("UPDATE MPTUNE_LAYER_COST SET class = -1", "class");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET cost = 1000", "cost");
  expect_refusal("UPDATE MPTUNE_LAYER_SAMPLE SET kind = 6", "kind");
  expect_refusal("UPDATE MPTUNE_PROFILE_DEVICE SET class = 2", "class");
  expect_refusal("UPDATE MPTUNE_FORBIDDEN_CUT SET layer = 2", "layer");
  expect_refusal("UPDATE MPTUNE_TIED_PARAMETERS SET layer = 2", "shares");
  expect_refusal("UPDATE MPTUNE_TIED_PARAMETERS SET earlier_layer = -1", "shares");
  expect_refusal("UPDATE MPTUNE_TIED_PARAMETERS SET earlier_layer = 1", "shares");
  expect_refusal("UPDATE MPTUNE_TIED_PARAMETERS SET bytes = 289", "more parameters than it has");
  expect_refusal("UPDATE MPTUNE_TIED_PARAMETERS SET bytes = -1", "shared");
  expect_refusal("UPDATE MPTUNE_LAYER_OPERATOR SET class = 2", "class");
  expect_refusal("UPDATE MPTUNE_LAYER_OPERATOR SET layer = -1", "layer");
  expect_refusal("UPDATE MPTUNE_HOST_COPIES SET device = 3", "device");
  expect_refusal("UPDATE MPTUNE_LINK SET source = 3", "device");
  expect_refusal("UPDATE MPTUNE_LINK_POINT SET link = 2", "link");
}

TEST_F(Hostile, CountsAndTimesOutOfRange) {
  expect_refusal("UPDATE MPTUNE_META SET value = '9223372036854775807' WHERE name = 'names'", "names");
  expect_refusal("UPDATE MPTUNE_META SET value = '-1' WHERE name = 'names'", "names");
  expect_refusal("UPDATE MPTUNE_META SET value = '9223372036854775807' WHERE name = 'time_shift_ns'", "shift");
  expect_refusal("UPDATE MPTUNE_DEVICE_CLASS SET layers = 9223372036854775807", "layers");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9223372036854775807", "time");
  expect_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = -9223372036854775807 - 1", "time");
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS", "MPTUNE_STEP"}) {
    expect_refusal("UPDATE " + std::string(table) + " SET start = -1000000000000000000", "further");
    expect_refusal("UPDATE " + std::string(table) + " SET end = 1000000000000000000", "further");
    expect_refusal("UPDATE " + std::string(table) + " SET end = start - 1", "before it starts");
  }
  expect_refusal("UPDATE MPTUNE_META SET value = '1000000000000000000' WHERE name = 'time_shift_ns'", "further");
  expect_refusal("UPDATE MPTUNE_EVENT SET event = event + 1000000000", "missing");
  expect_refusal("UPDATE MPTUNE_MEMORY SET current_bytes = 4611686018427387904", "memory");
  expect_refusal("UPDATE MPTUNE_MEMORY SET current_bytes = -1", "memory");
  expect_refusal("UPDATE MPTUNE_COPY SET bytes = 1 << 51", "a copy is too large");
  expect_refusal(
      "WITH RECURSIVE n(i) AS (SELECT (SELECT count(*) FROM MPTUNE_COPY) UNION ALL SELECT i + 1 FROM n WHERE i < 1200) "
      "INSERT INTO MPTUNE_COPY SELECT i, 1 << 50, 0, 1 FROM n",
      "all copies together are");
  expect_refusal("UPDATE MPTUNE_LAYER_OPERATOR SET share = 1.5", "share");
  expect_refusal("UPDATE MPTUNE_LAYER_OPERATOR SET replaced_seconds = -1", "time");
  expect_refusal("UPDATE MPTUNE_DEVICE SET cores = -1", "cores");
  expect_refusal("UPDATE MPTUNE_DEVICE SET memory_bytes = -1", "memory");
  expect_refusal("INSERT INTO MPTUNE_DEVICE_PEAK VALUES (0, -1)", "memory");
  expect_refusal("INSERT INTO MPTUNE_DEVICE_PEAK VALUES (99, 1)", "a peak has a device");
  expect_refusal("UPDATE MPTUNE_QUALITY SET dropped = -1", "losses");
  expect_refusal("UPDATE MPTUNE_QUALITY SET unmatched = 9223372036854775807", "losses");
  expect_refusal("UPDATE MPTUNE_OVERHEAD SET step_on_s = 9e999", "step");
  expect_refusal("UPDATE MPTUNE_OVERHEAD SET step_off_s = -1.0", "step");
}

TEST_F(Hostile, StepsThatOverlap) {
  expect_refusal("DELETE FROM MPTUNE_STEP; INSERT INTO MPTUNE_STEP VALUES (0, 0, 10, 20), (1, 1, 19, 30)", "overlap");
  expect_refusal("DELETE FROM MPTUNE_STEP; INSERT INTO MPTUNE_STEP VALUES (0, 0, 10, 20), (1, 1, 0, 5)", "order");
}

TEST_F(Hostile, ValuesOfProfilesOutOfRange) {
  const std::pair<const char*, const char*> refused[] = {
      {"PROFILE SET batch = -1", "batch"},
      {"PROFILE SET optimizer_state_factor = -1", "optimizer"},
      {"PROFILE SET co_running_slowdown = 9e999", "slowdown"},
      {"PROFILE SET precision = 'fp8'", "precision"},
      {"LAYER SET parameters = -1", "parameters"},
      {"LAYER SET parameters_bytes = -1", "parameters"},
      {"LAYER SET parameters_bytes = 1 << 43", "parameters"},
      {"LAYER SET buffers_bytes = -1", "buffers"},
      {"LAYER SET unsplit_bytes = -1", "does not split"},
      {"LAYER SET unsplit_share = 1.5", "does not split"},
      {"LAYER SET unsplit_share = 9e999", "does not split"},
      {"LAYER_EDGE SET bytes_per_sample = -1", "edge"},
      {"LAYER_EDGE SET fixed_bytes = 4611686018427387904", "edge"},
      {"DEVICE_CLASS SET action_seconds = -1.0", "action"},
      {"DEVICE_CLASS SET step_seconds = 9e999", "step"},
      {"DEVICE_CLASS SET optimizer_seconds_per_byte = 1e4", "optimizer"},
      {"DEVICE_CLASS SET reduce_seconds_per_byte = -1.0", "sum"},
      {"DEVICE_CLASS SET allocator_reserve = 9e999", "reserve"},
      {"DEVICE_CLASS SET memory_format = 2", "memory format"},
      {"DEVICE_CLASS SET memory_format = -1", "memory format"},
      {"DEVICE_CLASS SET memory_format = 1", "variant of no class"},
      {"DEVICE_CLASS SET variant_of = 0", "variant of no class"},
      {"DEVICE_CLASS SET memory_format = 1, variant_of = 0", "variant of a variant"},
      {"DEVICE_CLASS SET memory_format = 1, variant_of = 9", "class of a variant"},
      {"DEVICE_CLASS SET replaces_slow_kernels = 1, variant_of = 4294967296", "this size"},
      {"DEVICE_CLASS SET threads = -1", "number of threads"},
      {"DEVICE_CLASS SET threads = 4097", "number of threads"},
      {"DEVICE_CLASS SET threads = 1", "variant of no class"},
      {"PROFILE_DEVICE SET memory_bytes = -1", "memory"},
      {"HOST_COPIES SET to_latency_s = -1.0", "latency"},
      {"HOST_COPIES SET from_latency_s = 9e999", "latency"},
      {"HOST_COPIES SET to_bytes_per_second = 9e999", "speed"},
      {"HOST_COPIES SET from_device_seconds_per_byte = -1.0", "delay"},
      {"HOST_COPIES SET from_bytes_per_second = -1.0", "speed"},
      {"LINK SET latency_s = -1.0", "latency"},
      {"LINK SET latency_s = 9e999", "latency"},
      {"LINK SET bytes_per_second = -1.0", "speed"},
      {"LINK SET bytes_per_second = 9e999", "speed"},
      {"LINK_POINT SET bytes = -1", "copy"},
      {"LINK_POINT SET seconds = 9e999", "copy"},
      {"LAYER_COST SET samples = -1", "micro-batch"},
      {"LAYER_COST SET samples = 1 << 21", "micro-batch"},
      {"LAYER_COST SET output_bytes = -1", "output"},
      {"LAYER_COST SET kept_bytes = 1 << 43", "keeps"},
      {"LAYER_COST SET workspace_bytes = -1", "workspace"},
      {"LAYER_PEAK SET bare_forward_bytes = -1", "peak of a forward"},
      {"LAYER_PEAK SET first_backward_bytes = 1 << 43", "peak of a backward"},
      {"LAYER_SPLIT SET held_bytes = -1", "holds"},
      {"LAYER_SPLIT SET held_bytes = 1 << 43", "holds"},
      {"LAYER_SPLIT SET held_input_bytes = -1", "holds"},
      {"LAYER_SPLIT SET held_input_bytes = held_bytes + 1", "holds less than a part"},
      {"LAYER_SPLIT SET held_gradient_bytes = held_bytes", "holds less than a part"},
      {"LAYER_SPLIT SET input_workspace_bytes = -1", "workspace"},
      {"LAYER_SPLIT SET weight_workspace_bytes = 1 << 43", "workspace"},
      {"LAYER_SPLIT SET fused_share = 1.5", "fused"},
      {"LAYER_SPLIT SET fused_share = -0.5", "fused"},
      {"LAYER_SPLIT SET fused_bytes = -1", "fused"},
      {"LAYER_SPLIT SET cost = 77 WHERE cost = 1", "does not exist"},
      {"LAYER_SAMPLE SET value = -1.0", "sample"},
      {"LAYER_SAMPLE SET value = 9e999", "sample"},
      {"LAYER_SAMPLE SET started = -9e999", "sample"},
  };
  for (const auto& [update, part] : refused) expect_refusal(std::string("UPDATE MPTUNE_").append(update), part);
}

TEST_F(Hostile, ClassesTimesLayersOutOfRange) {
  const auto numbers = [](const char* most) {
    return std::string("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ").append(most).append(") INSERT INTO ");
  };
  const auto layers = [&](const char* most) {
    return numbers(most).append("MPTUNE_LAYER SELECT i, 'l', 'k', 0, 0, 0, 0, 0, 0.0, '', 0, 1, 0 FROM n; ");
  };
  const auto classes = [&](const char* most) {
    return numbers(most).append(
        "MPTUNE_DEVICE_CLASS SELECT i, 'c', (SELECT count(*) FROM MPTUNE_LAYER), 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, -1, 0, 0 FROM n");
  };
  expect_refusal(layers("10000"), "10000 layers");
  expect_refusal(classes("5000"), "4096 device classes");
  expect_refusal(layers("2000") + classes("600"), "1000000 layers");
}

TEST_F(Hostile, RowsAndTablesMissingOrTooMany) {
  expect_refusal("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 1", "too few");
  expect_refusal("DELETE FROM MPTUNE_EVENT WHERE event = 0", "missing");
  expect_refusal("DELETE FROM MPTUNE_EVENT WHERE event = (SELECT max(event) FROM MPTUNE_EVENT)", "too many");
  expect_refusal("DELETE FROM MPTUNE_QUALITY", "MPTUNE_QUALITY");
  expect_refusal("DELETE FROM MPTUNE_PROFILE", "MPTUNE_PROFILE");
  expect_refusal("DROP TABLE MPTUNE_EDGE", "layout");
  expect_refusal(
      "DROP TABLE StringIds; CREATE VIEW StringIds AS WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r) SELECT id, 'x' "
      "value FROM r",
      "view");
}

TEST_F(Hostile, KernelsCallsAndTheRecordersWork) {
  const auto refuses = [&](const std::string& sql, const std::string& part) { expect_refusal_of(testing::gpu_trace(), sql, part); };
  refuses("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'wide'", "gridX");
  refuses("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET contextId = 1 << 40", "contextId");
  refuses("UPDATE MPTUNE_EVENT SET detail = 2000000000 WHERE what = 0", "kernel");
  refuses("UPDATE MPTUNE_EVENT SET detail = 1000000 WHERE what = 7", "copy");
  refuses("DELETE FROM MPTUNE_GRID; UPDATE MPTUNE_EVENT SET detail = 3 WHERE what = 0", "kernel");
  refuses("UPDATE MPTUNE_GRID SET detail = 1 << 40", "detail");
  refuses("UPDATE MPTUNE_GRID SET blockX = x'00'", "blockX");
  refuses("UPDATE MPTUNE_LAUNCH SET event = -2", "launch");
  refuses("UPDATE MPTUNE_LAUNCH SET launch = launch + 1000000000", "missing");
  refuses("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 'call'", "nameId");
  refuses("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 5", "correlation");
  refuses("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL", "correlationId");
  refuses("DELETE FROM PROFILER_OVERHEAD WHERE rowid = 9", "too few");
  refuses("UPDATE MPTUNE_QUALITY SET unmatched = 'many'", "unmatched");
  refuses("UPDATE MPTUNE_COPY SET bytes = -1", "a copy has a negative size");
  refuses("INSERT INTO MPTUNE_EDGE SELECT 3, consumer, producer, kind FROM MPTUNE_EDGE WHERE edge = 1", "cycle");
  refuses("UPDATE MPTUNE_EDGE SET consumer = producer", "cycle");
}

TEST_F(Hostile, ExportsOfOthers) {
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'", "start");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 1e300", "end");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = x'01'", "deviceId");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET shortName = 'gemm'", "shortName");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridY = 1 << 40", "gridY");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -5", "a copy has a negative size");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 9223372036854775807", "a copy is too large");
  expect_foreign_refusal("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = 'main'", "globalTid");
  expect_foreign_refusal("UPDATE PROFILER_OVERHEAD SET overheadType = 'x'", "overheadType");
  expect_foreign_refusal("UPDATE TARGET_INFO_GPU SET totalMemory = 'much'", "totalMemory");
  expect_foreign_refusal("UPDATE META_DATA_EXPORT SET value = '4.0.0' WHERE name = 'EXPORT_SCHEMA_VERSION'", "4.0.0");
  expect_foreign_refusal("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMSET RENAME COLUMN end TO finish", "end");
  expect_foreign_refusal(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, "
      "deviceId, contextId, streamId, value, bytes) SELECT i, i, i * 1000000000, 1, 7, 0, 0 FROM n",
      "4096 devices");
}

TEST_F(Hostile, ViewsAndVirtualTablesOfAnyCase) {
  const std::string endless =
      " AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM r) SELECT start, start AS end, 0 AS deviceId FROM r";
  expect_foreign_refusal("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW cupti_activity_KIND_kernel" + endless, "view");
  expect_foreign_refusal("CREATE VIEW CUPTI_ACTIVITY_KIND_CUDA_EVENT" + endless, "view");
  expect_foreign_refusal("DROP TABLE PROFILER_OVERHEAD; CREATE VIEW profiler_overhead" + endless, "view");
  expect_refusal("DROP TABLE MPTUNE_TAG; CREATE VIEW mptune_tag" + endless, "view");
  expect_refusal("DROP TABLE MPTUNE_TAG; CREATE VIRTUAL TABLE MPTUNE_TAG USING fts4(tag, step)", "view");
}

TEST_F(Hostile, TextThatLooksLikeSqlIsText) {
  Trace trace = testing::gpu_trace();
  for (std::string& name : trace.names) name += "'); DROP TABLE StringIds; --";
  trace.devices[0].name = "\"; DELETE FROM MPTUNE_EVENT; --";
  trace.threads[0] = "' OR 1=1 --";
  write({.trace = trace, .plan_json = "'); DROP TABLE MPTUNE_META; --"});
  EXPECT_EQ(read_recording(path()).trace, trace);
  change("DROP TABLE MPTUNE_META");
  EXPECT_EQ(read_recording(path()).trace->kernels.size(), 3u);
}

// The reader may look for the next of 10^9 rows only where the file is large enough to hold them.
TEST_F(Hostile, PagesThatReferToThemselves) {
  Trace trace;
  trace.names.assign(20000, "a name of some length");
  write({.trace = trace});
  std::string spoiled = bytes();
  const auto page_size = std::size_t{4096};
  SQLite::Database database(path(), SQLite::OPEN_READONLY);
  const auto root = as_index(database.execAndGet("SELECT rootpage FROM sqlite_master WHERE name = 'StringIds'").getInt());
  char* page = spoiled.data() + (root - 1) * page_size;
  ASSERT_EQ(page[0], 5) << "the root is an inner page";
  // Every child of the root becomes its first child, so that its rows come again and again.
  const auto number = [&](std::size_t at) { return as_index(static_cast<unsigned char>(page[at])); };
  const std::size_t cells = number(3) << 8 | number(4);
  const std::size_t first = number(12) << 8 | number(13);
  for (std::size_t i = 1; i < cells; ++i) std::copy_n(page + first, 4, page + (number(12 + 2 * i) << 8 | number(13 + 2 * i)));
  std::copy_n(page + first, 4, page + 8);
  put(spoiled);
  EXPECT_FALSE(refusal().empty());
}

TEST_F(Hostile, FlippedBytesNeverCrash) {
  const std::string whole = bytes();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string spoiled = whole;
    for (int i = 0; i < 20; ++i) spoiled[random() % spoiled.size()] = static_cast<char>(random());
    put(spoiled);
    try {
      (void)read_recording(path());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mptune::profiler
