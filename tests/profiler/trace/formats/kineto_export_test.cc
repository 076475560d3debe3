#include "profiler/trace/formats/kineto_export.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/store/tables.h"
#include "profiler/trace/values/trace_builder.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class KinetoExports : public testing::Files {
 protected:
  [[nodiscard]] Trace back(const Trace& trace) const {
    std::vector<std::string> files = write_kineto(trace, path("run.json"));
    std::ranges::reverse(files);
    KinetoExport read = read_kineto_export(files);
    EXPECT_TRUE(read.missing.empty());
    EXPECT_EQ(inconsistency(read.trace), "");
    return std::move(read.trace);
  }

  void expect_refused(const std::vector<std::string>& files, const std::string& why) const {
    try {
      (void)read_kineto_export(files);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_THAT(error.problem(), HasSubstr(why));
    }
  }

  // A file with another value in its first event.
  [[nodiscard]] std::string changed(const std::string& file, const std::string& key, const Json& value) const {
    Json json = Json::parse(bytes(file));
    for (Json& row : json["traceEvents"]) {
      if (row.value("cat", "") != "kernel") continue;
      (row.contains(key) ? row : row["args"])[key] = value;
      break;
    }
    return put("changed.json", json.dump());
  }
};

Trace ordered(Trace trace) {
  order_events(trace);
  return trace;
}

// What events say, with names and tags in place of their numbers.
std::vector<std::string> told(const Trace& trace) {
  std::vector<std::string> rows;
  for (const Event& event : trace.events) {
    std::string row = trace.devices[as_index(event.device)].name + " " + std::to_string(event.lane) + " " + to_string(event.kind) + " " +
                      trace.names[as_index(event.name)] + " " + std::to_string(event.start.count()) + "+" +
                      std::to_string(event.duration.count());
    if (event.tag >= 0) {
      const Tag& tag = trace.tags[as_index(event.tag)];
      for (const int number : {tag.step, tag.stage, tag.microbatch, tag.layer, tag.replica}) row += " " + std::to_string(number);
    }
    if (event.kind == EventKind::copy && event.detail >= 0) {
      const Copy& copy = trace.copies[as_index(event.detail)];
      for (const std::int64_t number : {copy.bytes, std::int64_t{copy.source}, std::int64_t{copy.destination}})
        row += " " + std::to_string(number);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<Edge> sorted(std::vector<Edge> edges) {
  std::ranges::sort(edges, {}, [](const Edge& edge) { return std::tuple(edge.consumer, edge.producer, edge.kind); });
  return edges;
}

void expect_equal(const Trace& written, const Trace& read) {
  EXPECT_EQ(break_down(written), break_down(read));
  EXPECT_EQ(told(written), told(read));
  EXPECT_EQ(written.devices, read.devices);
  EXPECT_EQ(written.steps, read.steps);
  EXPECT_EQ(sorted(written.edges), sorted(read.edges));
  EXPECT_EQ(written.started_utc_ns, read.started_utc_ns);
  EXPECT_EQ(written.simulated, read.simulated);
  EXPECT_EQ(written.launches.size(), read.launches.size());
}

TEST_F(KinetoExports, ComeBackAsTheyWere) {
  Trace renamed = testing::hand_trace();
  renamed.devices[1].peak_bytes = 12345;
  renamed.devices[0].name = "0@cpu:3";
  renamed.devices[1].name = "1@cpu:3";
  renamed.simulated = true;
  renamed.names[0] = "a\"b\\c\n{}";
  for (const Trace& trace : {testing::hand_trace(), testing::gpu_trace(), renamed}) expect_equal(ordered(trace), back(trace));
}

TEST_F(KinetoExports, RandomOnesToo) {
  std::mt19937 random(17);
  for (int round = 0; round < 30; ++round) {
    Trace trace = ordered(testing::random_trace(random, 1 + round % 4, 150));
    if (round % 3 == 0) trace.steps.clear();
    for (int i = 0; i + 7 < static_cast<int>(trace.events.size()); i += 5)
      if (trace.events[as_index(i)].device != trace.events[as_index(i) + 7].device) trace.edges.push_back({i, i + 7, EdgeKind::data});
    if (round % 2 == 0) trace.launches.clear();
    expect_equal(trace, back(trace));
  }
}

TEST_F(KinetoExports, OfOneDeviceHoldNoOther) {
  const std::vector<std::string> files = write_kineto(testing::hand_trace(), path("run.json"));
  const KinetoExport read = read_kineto_export({files[1]});
  EXPECT_THAT(read.missing, ElementsAre(0));
  EXPECT_EQ(inconsistency(read.trace), "");
  ASSERT_EQ(read.trace.devices.size(), 1U);
  EXPECT_EQ(read.trace.devices[0].name, "cpu:1");
  const DeviceBreakdown whole = break_down(ordered(testing::hand_trace())).steps[0].devices[1],
                        part = break_down(read.trace).steps[0].devices[0];
  EXPECT_EQ(part.compute, whole.compute);
  EXPECT_EQ(read_any_trace(files[1]), read.trace);
}

TEST_F(KinetoExports, OfDifferentTracesAreRefused) {
  const std::vector<std::string> files = write_kineto(testing::hand_trace(), path("run.json"));
  const std::vector<std::string> others = write_kineto(testing::gpu_trace(), path("other.json"));
  expect_refused({files[0], others[1]}, "another trace");
  expect_refused({files[0], files[0]}, "the same device");
  const std::string foreign = put("foreign.json", R"([{"ph":"X","cat":"kernel","name":"a","pid":0,"ts":1,"dur":1}])");
  EXPECT_FALSE(kineto_part(foreign));
  expect_refused({files[0], foreign}, "not written by mptune export");
}

TEST_F(KinetoExports, DamagedAreRefused) {
  const std::string file = write_kineto(testing::hand_trace(), path("run.json"))[0];
  expect_refused({changed(file, "ts", 1e300)}, "times that can't be right");
  expect_refused({changed(file, "dur", -1)}, "times that can't be right");
  expect_refused({changed(file, "stream", 3)}, "no stream");
  expect_refused({changed(file, "kind", "sync")}, "no known kind");
  expect_refused({changed(file, "kind", "copy")}, "no known kind");
  expect_refused({changed(file, "event", -7)}, "no number");
  expect_refused({changed(file, "event", 1)}, "no number");
  expect_refused({changed(file, "after", "dx")}, "waits for");
  expect_refused({changed(file, "after", "d0")}, "in a circle");
  expect_refused({changed(file, "dur", 15)}, "overlap");
  EXPECT_EQ(inconsistency(read_kineto_export({changed(file, "after", "d99999999")}).trace), "");
}

}  // namespace
}  // namespace mptune::profiler
