#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <sstream>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/new_file.h"
#include "profiler/trace/formats/csv.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/nvtxt.h"
#include "profiler/trace/formats/perfetto.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/support/hand_trace.h"

namespace mptune::profiler {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A protobuf message taken apart: field numbers with their values, whose meaning the reader knows.
struct Field {
  int number = 0;
  std::uint64_t integer = 0;
  std::string_view bytes{};
};

std::vector<Field> fields_of(std::string_view text) {
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(text.at(0));
      text.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  std::vector<Field> fields;
  while (!text.empty()) {
    const std::uint64_t key = varint();
    Field field{.number = static_cast<int>(key >> 3)};
    switch (key & 7) {
      case 0:
        field.integer = varint();
        break;
      case 1:
        for (int i = 7; i >= 0; --i) field.integer = field.integer << 8 | static_cast<unsigned char>(text.at(as_index(i)));
        text.remove_prefix(8);
        break;
      default:
        EXPECT_EQ(key & 7, 2U);
        const std::uint64_t size = varint();
        EXPECT_LE(size, text.size());
        field.bytes = text.substr(0, size);
        text.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

std::optional<Field> find(const std::vector<Field>& fields, int number) {
  for (const Field& field : fields)
    if (field.number == number) return field;
  return std::nullopt;
}

// What a Perfetto reader makes of the packets: slices with their tracks' names.
struct Perfetto {
  std::map<std::uint64_t, std::string> tracks;
  std::map<std::uint64_t, std::uint64_t> parents;
  std::map<std::uint64_t, std::string> processes;
  std::map<std::uint64_t, std::string> names;
  std::vector<std::string> slices;                     // "track name start+duration"
  std::map<std::uint64_t, std::pair<int, int>> flows;  // how often a flow begins and ends
  std::vector<std::pair<std::string, std::uint64_t>> counts;

  explicit Perfetto(const std::string& text) {
    for (const Field& packet : fields_of(text)) {
      EXPECT_EQ(packet.number, 1);
      take(fields_of(packet.bytes));
    }
    for (const auto& [track, open] : stacks_) EXPECT_TRUE(open.empty()) << "a slice without end";
  }

 private:
  struct Open {
    std::string name;
    std::uint64_t start;
  };

  void take(const std::vector<Field>& packet) {
    EXPECT_EQ(find(packet, 10).value().integer, 1U);  // the sequence
    if (const auto data = find(packet, 12)) {
      for (const Field& entry : fields_of(data->bytes)) {
        const auto fields = fields_of(entry.bytes);
        if (entry.number == 2) names[find(fields, 1).value().integer] = find(fields, 2).value().bytes;
      }
    }
    if (const auto descriptor = find(packet, 60)) take_track(fields_of(descriptor->bytes));
    if (const auto event = find(packet, 11)) take_event(find(packet, 8).value().integer, fields_of(event->bytes));
  }

  void take_track(const std::vector<Field>& fields) {
    const std::uint64_t uuid = find(fields, 1).value().integer;
    if (const auto process = find(fields, 3)) {
      processes[uuid] = find(fields_of(process->bytes), 6).value().bytes;
    } else {
      parents[uuid] = find(fields, 5).value().integer;
      tracks[uuid] = processes.at(parents[uuid]) + "/" + std::string(find(fields, 2).value().bytes);
    }
  }

  void take_event(std::uint64_t time, const std::vector<Field>& fields) {
    const std::uint64_t track = find(fields, 11).value().integer;
    for (const Field& field : fields) {
      if (field.number == 47) ++flows[field.integer].first;
      if (field.number == 48) ++flows[field.integer].second;
    }
    const std::uint64_t type = find(fields, 9).value().integer;
    if (type == 4) counts.emplace_back(tracks.at(track), find(fields, 30).value().integer);
    if (type == 1) stacks_[track].push_back({names.at(find(fields, 10).value().integer), time});
    if (type != 2) return;
    const Open open = stacks_[track].back();
    stacks_[track].pop_back();
    slices.push_back(tracks.at(track) + " " + open.name + " " + std::to_string(open.start) + "+" + std::to_string(time - open.start));
  }

  std::map<std::uint64_t, std::vector<Open>> stacks_;
};

class Writers : public testing::Files {};

TEST_F(Writers, PerfettoHoldsEveryEvent) {
  const Trace trace = testing::hand_trace();
  write_perfetto(trace, path("t.pftrace"));
  EXPECT_TRUE(bytes(path("t.pftrace")).starts_with(perfetto_magic()));
  const Perfetto read(bytes(path("t.pftrace")));
  EXPECT_EQ(read.slices.size(), trace.events.size() + trace.ranges.size() + trace.launches.size());
  for (const char* slice :
       {"cpu:0/compute forward conv1 0+10", "cpu:1/compute backward fc 16+44", "cpu:0/copy to cpu:1 copy conv1 10+6",
        "cpu:1/copy to cpu:0 copy fc 60+5", "cpu:1/steps step 0 0+100", "cpu:1/actions 1B0 2+58", "host/worker cpu:1 launch 16+1"})
    EXPECT_THAT(read.slices, Contains(slice));
  // Four of its edges touch a copy and say more than order.
  EXPECT_EQ(read.flows.size(), 4U);
  for (const auto& [id, ends] : read.flows) EXPECT_EQ(ends, std::pair(1, 1));
  EXPECT_THAT(read.counts, Contains(std::pair<std::string, std::uint64_t>("cpu:0/memory", 4196)));
}

// Lanes of streams mean nothing by their number.
TEST_F(Writers, PerfettoNamesLanesByWhatIsOnThem) {
  Trace trace = testing::hand_trace();
  for (Event& event : trace.events) {
    if (event.device != 1) continue;
    event.lane = event.kind == EventKind::sync ? 0 : event.kind == EventKind::copy ? 3 : 2;
  }
  Event upload = trace.events[0];
  upload.kind = EventKind::copy;
  upload.device = 1;
  upload.lane = 4;
  for (const int destination : {0, -1}) {
    upload.detail = static_cast<int>(trace.copies.size());
    trace.copies.push_back({.bytes = 1, .source = 1, .destination = destination});
    trace.events.push_back(upload);
    upload.start += upload.duration;
  }
  write_perfetto(trace, path("t.pftrace"));
  const Perfetto read(bytes(path("t.pftrace")));
  for (const char* slice : {"cpu:0/compute forward conv1 0+10", "cpu:1/lane 0 wait conv1 2+14", "cpu:1/lane 2 backward fc 16+44",
                            "cpu:1/copy to cpu:0 copy fc 60+5", "cpu:1/lane 4 forward conv1 10+10"})
    EXPECT_THAT(read.slices, Contains(slice));
}

TEST_F(Writers, PerfettoHasTheStepsThatNoRangeShows) {
  Trace trace = testing::hand_trace();
  trace.ranges.clear();
  trace.steps.push_back({.step = 7, .start = Nanoseconds{100}, .end = Nanoseconds{130}});
  trace.steps[0].start = Nanoseconds{-10};
  write_perfetto(trace, path("t.pftrace"));
  const Perfetto read(bytes(path("t.pftrace")));
  for (const char* slice : {"host/steps step 0 0+110", "host/steps step 7 110+30", "cpu:0/compute forward conv1 10+10"})
    EXPECT_THAT(read.slices, Contains(slice));
  EXPECT_EQ(read.slices.size(), trace.events.size() + trace.launches.size() + trace.steps.size());
}

TEST_F(Writers, PerfettoTakesEventsWithoutLengthAndBeforeTheStart) {
  Trace trace = testing::hand_trace();
  for (Event& event : trace.events) event.start -= Nanoseconds{50};
  for (Event& event : trace.events) event.duration = Nanoseconds{0};
  trace.ranges[0].duration = Nanoseconds{std::int64_t{1} << 40};
  write_perfetto(trace, path("t.pftrace"));
  const Perfetto read(bytes(path("t.pftrace")));
  EXPECT_THAT(read.slices, Contains("cpu:0/compute forward conv1 0+0"));
  EXPECT_THAT(read.slices, Contains("cpu:0/steps step 0 50+1099511627776"));
}

TEST_F(Writers, NvtxtHasALinePerRange) {
  Trace trace = testing::hand_trace();
  trace.names[0] = "say \"hi\"\n";
  write_nvtxt(trace, path("t.nvtxt"));
  const std::string text = bytes(path("t.nvtxt"));
  EXPECT_THAT(text, ::testing::StartsWith("SetFileDisplayName, mptune\n@RangeStartEnd, Start, End, ThreadId, Message\n"));
  EXPECT_THAT(text, HasSubstr("\nRangeStartEnd, 0, 10, 1000, \"say 'hi' \"\n"));
  EXPECT_THAT(text, HasSubstr("\nRangeStartEnd, 10, 16, 1002, \"copy conv1\"\n"));
  EXPECT_THAT(text, HasSubstr("\nRangeStartEnd, 2, 60, 2999, \"1B0\"\n"));
  EXPECT_THAT(text, HasSubstr("\nMarker, 0, 998, \"step 0\"\n"));
  const auto lines = as_index(std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(lines, 11 + trace.events.size() + trace.ranges.size() + trace.steps.size());
}

TEST_F(Writers, NvtxtTimesAreNeverNegative) {
  Trace trace = testing::hand_trace();
  trace.steps[0].start = Nanoseconds{-40};
  write_nvtxt(trace, path("t.nvtxt"));
  const std::string text = bytes(path("t.nvtxt"));
  EXPECT_THAT(text, HasSubstr("\nMarker, 0, 998, \"step 0\"\n"));
  EXPECT_THAT(text, HasSubstr("\nRangeStartEnd, 40, 50, 1000, \"forward conv1\"\n"));
}

TEST_F(Writers, CsvHasARowPerEvent) {
  Trace trace = testing::hand_trace();
  trace.names[0] = "a,\"b\"";
  write_csv(trace, path("t.csv"));
  std::istringstream text(bytes(path("t.csv")));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 1 + trace.events.size());
  EXPECT_EQ(lines[0], "start_ns,duration_ns,device,lane,what,name,step,stage,microbatch,layer,replica,bytes,source,destination");
  EXPECT_EQ(lines[1], "0,10,cpu:0,0,forward,\"a,\"\"b\"\"\",0,0,0,0,0,,,");
  EXPECT_EQ(lines[3], "10,6,cpu:0,2,copy,copy conv1,0,0,0,0,0,4096,cpu:0,cpu:1");
  for (const std::string& line : lines)
    if (line.find('"') == std::string::npos) {
      EXPECT_EQ(std::count(line.begin(), line.end(), ','), 13) << line;
    }
}

TEST_F(Writers, LeaveNoPartialFiles) {
  const Trace trace = testing::hand_trace();
  for (const auto write : {write_perfetto, write_nvtxt, write_csv}) {
    EXPECT_THROW(write(trace, path("absent/t")), Error);
    EXPECT_THROW(write(trace, std::filesystem::path(path("t")).parent_path().string()), Error);
  }
  EXPECT_THROW((void)write_kineto(trace, path("absent/t.json")), Error);
  { NewFile(path("unfinished")) << "x"; }
  EXPECT_EQ(count_files(), 0);
  (void)put("t.csv", "old");
  write_csv(trace, path("t.csv"));
  EXPECT_THAT(bytes(path("t.csv")), ::testing::StartsWith("start_ns"));
  EXPECT_EQ(count_files(), 1);
}

TEST_F(Writers, WriteAnEmptyTrace) {
  for (const auto write : {write_perfetto, write_nvtxt, write_csv}) EXPECT_NO_THROW(write({}, path("t")));
  EXPECT_TRUE(write_kineto({}, path("t.json")).empty());
}

}  // namespace
}  // namespace mptune::profiler
