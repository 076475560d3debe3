#include <gtest/gtest.h>
#include <sys/resource.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/profiler/trace/store/scratch.h"

namespace mptune::profiler {
namespace {

class RoundTrip : public testing::Scratch {
 protected:
  void expect_same(const Recording& recording) const {
    write(recording);
    const Recording read = read_recording(path());
    EXPECT_EQ(read.trace, recording.trace);
    EXPECT_EQ(read.profile, recording.profile);
    EXPECT_EQ(read.plan_json, recording.plan_json);
    EXPECT_EQ(read.environment, recording.environment);
    EXPECT_EQ(read.step_off_s, recording.step_off_s);
    EXPECT_EQ(read.step_on_s, recording.step_on_s);
  }

  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path()).parent_path())) ++count;
    return count;
  }

  static ExitCode code_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_FALSE(error.remedy().empty());
      return error.code();
    }
    return ExitCode::done;
  }
};

TEST_F(RoundTrip, OfAFullRecordingIsExact) {
  expect_same(write_hand_made());
  EXPECT_EQ(files(), 1u);
}

TEST_F(RoundTrip, OfPartsIsExact) {
  expect_same({});
  expect_same({.trace = Trace{}});
  expect_same({.trace = testing::hand_trace()});
  expect_same({.trace = testing::gpu_trace()});
  expect_same({.profile = testing::hand_profile()});
  expect_same({.profile = Profile{}});
}

TEST_F(RoundTrip, NamesSayWhichCopiesHoldGradients) {
  Trace trace = testing::hand_trace();
  for (const char* name : {kGradientCopyName, kBackwardCopyName}) {
    const auto copy = std::ranges::find(trace.events, EventKind::copy, &Event::kind);
    ASSERT_NE(copy, trace.events.end());
    copy->name = static_cast<std::int32_t>(trace.names.size());
    trace.names.emplace_back(name);
    trace.copies.at(as_index(copy->detail)).gradient = true;
    expect_same({.trace = trace});
  }
}

TEST_F(RoundTrip, NamesSayWhichCopiesMoveUnifiedMemory) {
  Trace trace = testing::hand_trace();
  const auto copy = std::ranges::find(trace.events, EventKind::copy, &Event::kind);
  ASSERT_NE(copy, trace.events.end());
  copy->name = static_cast<std::int32_t>(trace.names.size());
  trace.names.emplace_back(kUnifiedCopyName);
  trace.copies.at(as_index(copy->detail)).unified = true;
  expect_same({.trace = trace});
}

TEST_F(RoundTrip, ReadsTracesOfTheFourthMinorVersion) {
  Trace trace = testing::gpu_trace();
  write({.trace = trace});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "ALTER TABLE MPTUNE_QUALITY DROP COLUMN cut_off; ALTER TABLE MPTUNE_QUALITY DROP COLUMN ambiguous; ALTER TABLE MPTUNE_QUALITY "
          "DROP COLUMN unmatched_ns; UPDATE MPTUNE_META SET value = '3' WHERE name = 'schema_minor'");
  trace.quality.cut_off = trace.quality.ambiguous = trace.quality.unmatched_ns = 0;
  EXPECT_EQ(read_recording(path()).trace, trace);
}

TEST_F(RoundTrip, OfRandomTracesIsExact) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) expect_same({.trace = testing::random_trace(random, 1 + round % 5, 10 * round)});
}

// Kernels in any order, some of several events, some of none; calls of any event and of none.
TEST_F(RoundTrip, OfRandomKernelsAndCallsIsExact) {
  std::mt19937 random(2);
  const auto below = [&](std::size_t count) { return static_cast<int>(random() % count); };
  for (int round = 0; round < 20; ++round) {
    Trace trace = testing::random_trace(random, 3, 60 + round);
    trace.threads = {"a", "b"};
    const std::size_t kernels = 1 + random() % 80;
    for (std::size_t i = 0; i < kernels; ++i)
      trace.kernels.push_back({below(4), below(40), {below(9), 1, 2}, {below(99), 3, 4}, below(255), below(9), below(9)});
    for (Event& event : trace.events) {
      if (is_compute(event.kind) && random() % 4 != 0) event.detail = below(kernels);
      if (event.kind == EventKind::host && random() % 2 == 0) event.kind = EventKind::profiler;
    }
    for (int i = 0; i < 60; ++i) {
      const Nanoseconds start{below(1000)};
      trace.launches.push_back(
          {below(trace.events.size() + 1) - 1, below(2), below(trace.names.size() + 1) - 1, start, start + Nanoseconds{1}, 500 - i});
    }
    expect_same({.trace = trace});
  }
}

TEST_F(RoundTrip, PeaksOfDevicesAreKept) {
  Trace trace = testing::hand_trace();
  ASSERT_FALSE(trace.devices.empty());
  trace.devices.back().peak_bytes = std::int64_t{1} << 40;
  write({.trace = trace});
  EXPECT_EQ(read_recording(path()).trace, trace);
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_DEVICE_PEAK");
  trace.devices.back().peak_bytes = 0;
  EXPECT_EQ(read_recording(path()).trace, trace) << "a file of an earlier version";
}

TEST_F(RoundTrip, ReadsTheFirstMinorVersion) {
  Trace trace = testing::hand_trace();
  write({.trace = trace});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "DROP TABLE PROFILER_OVERHEAD; DROP TABLE MPTUNE_GRID; ALTER TABLE MPTUNE_QUALITY DROP COLUMN zero_stamped; ALTER TABLE "
          "MPTUNE_QUALITY DROP COLUMN unmatched; ALTER TABLE MPTUNE_QUALITY DROP COLUMN cut_off; UPDATE MPTUNE_META SET value = '0' WHERE "
          "name = 'schema_minor'");
  EXPECT_EQ(read_recording(path()).trace, trace);
}

TEST_F(RoundTrip, ReadsProfilesOfTheSecondMinorVersion) {
  Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "DROP TABLE MPTUNE_FORBIDDEN_CUT; DROP TABLE MPTUNE_LINK_POINT; DROP TABLE MPTUNE_LAYER_OPERATOR; ALTER TABLE MPTUNE_LINK DROP "
          "COLUMN medium; ALTER TABLE "
          "MPTUNE_DEVICE_CLASS DROP COLUMN allocator_reserve; UPDATE MPTUNE_META SET value = '1' WHERE name = 'schema_minor'");
  profile.forbidden_cuts.clear();
  profile.operators.clear();
  for (LinkCost& link : profile.links) {
    link.curve.clear();
    link.medium = -1;
  }
  for (DeviceClass& device_class : profile.classes) device_class.allocator_reserve = 0;
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, LinksSayWhoCopies) {
  Profile profile = testing::hand_profile();
  ASSERT_FALSE(profile.links.empty());
  profile.links.front().sender_copies = true;
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("ALTER TABLE MPTUNE_LINK DROP COLUMN sender_copies");
  profile.links.front().sender_copies = false;
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, SaysWhatGpusHoldBesideTheModel) {
  Profile profile = testing::hand_profile();
  profile.classes.front().library_bytes = 33'554'432;
  profile.links.front().communicator_bytes = 4'194'304;
  profile.links.front().tensor_s = 1e-5;
  profile.target_bytes_per_sample = 8;
  profile.layers.front().parameter_tensors = 2;
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "ALTER TABLE MPTUNE_LINK DROP COLUMN communicator_bytes; ALTER TABLE MPTUNE_LINK DROP COLUMN tensor_s; ALTER TABLE "
          "MPTUNE_DEVICE_CLASS DROP COLUMN library_bytes; "
          "ALTER TABLE MPTUNE_PROFILE DROP COLUMN target_bytes_per_sample; ALTER TABLE MPTUNE_LAYER DROP COLUMN parameter_tensors");
  profile.layers.front().parameter_tensors = 0;
  profile.links.front().tensor_s = 0;
  profile.target_bytes_per_sample = 0;
  profile.classes.front().library_bytes = profile.links.front().communicator_bytes = 0;
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, DevicesSayHowFastTheyCopyToAndFromTheHost) {
  Profile profile = testing::hand_profile();
  ASSERT_GE(profile.devices.size(), 2u);
  profile.devices[1].to_host = {1e-5, 2e10, false, 1.0 / 7};
  profile.devices[1].from_host = {2e-5, 1e10, true};
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_HOST_COPIES");
  for (ProfileDevice& device : profile.devices) device.to_host = device.from_host = {};
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesThatDoNotSayHowManyOperatorsReadATensor) {
  Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("ALTER TABLE MPTUNE_LAYER_EDGE DROP COLUMN several_readers");
  for (LayerEdge& edge : profile.edges) edge.several_readers = false;
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesWithoutPeaksOfLayers) {
  Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_LAYER_PEAK");
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples) cost.peaks.reset();
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesWithoutSharesOfFusedWeightGradients) {
  Profile profile = testing::hand_profile();
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples)
      if (cost.split) cost.split->fused_share = -1;
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec("ALTER TABLE MPTUNE_LAYER_SPLIT DROP COLUMN fused_share; ALTER TABLE MPTUNE_LAYER_SPLIT DROP COLUMN fused_bytes");
  for (LayerCosts& layer : profile.classes[0].layers)
    for (LayerCost& cost : layer.by_samples)
      if (cost.split) cost.split->fused_bytes = 0;
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesWithoutWrittenBuffers) {
  Profile profile = testing::hand_profile();
  profile.layers[1].written_buffer = "norm.running_mean";
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("ALTER TABLE MPTUNE_LAYER DROP COLUMN written_buffer");
  profile.layers[1].written_buffer.clear();
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesWithoutRangesOfSamples) {
  Profile profile = testing::hand_profile();
  profile.layers[0].samples = {2, 63};
  write({.profile = profile});
  EXPECT_EQ(read_recording(path()).profile, profile);
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec("ALTER TABLE MPTUNE_LAYER DROP COLUMN least_samples; ALTER TABLE MPTUNE_LAYER DROP COLUMN most_samples");
  profile.layers[0].samples = {};
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesWithoutTiedParameters) {
  Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("DROP TABLE MPTUNE_TIED_PARAMETERS");
  profile.tied_parameters.clear();
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesOfTheThirdMinorVersion) {
  Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "DROP TABLE MPTUNE_LAYER_SPLIT; ALTER TABLE MPTUNE_LAYER DROP COLUMN unsplit_bytes; ALTER TABLE MPTUNE_LAYER DROP COLUMN "
          "unsplit_share; UPDATE MPTUNE_META SET value = '2' WHERE name = 'schema_minor'");
  for (ProfileLayer& layer : profile.layers) layer.unsplit_bytes = 0, layer.unsplit_share = 0;
  for (DeviceClass& device_class : profile.classes)
    for (LayerCosts& layer : device_class.layers)
      for (LayerCost& cost : layer.by_samples) cost.split.reset();
  EXPECT_EQ(read_recording(path()).profile, profile);
}

Profile with_variants() {
  Profile profile = testing::hand_profile();
  DeviceClass variant = profile.classes[0];
  variant.variant = {MemoryFormat::channels_last, true};
  variant.variant_of = 0;
  profile.classes.push_back(variant);
  variant.variant = {.threads = 3};
  profile.classes.push_back(variant);
  return profile;
}

TEST_F(RoundTrip, KeepsExecutionVariants) {
  expect_same({.profile = with_variants()});
}

TEST_F(RoundTrip, ReadsProfilesFromBeforeThereWereVariants) {
  const Profile profile = testing::hand_profile();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE)
      .exec(
          "ALTER TABLE MPTUNE_DEVICE_CLASS DROP COLUMN memory_format; ALTER TABLE MPTUNE_DEVICE_CLASS DROP COLUMN replaces_slow_kernels; "
          "ALTER TABLE MPTUNE_DEVICE_CLASS DROP COLUMN variant_of; ALTER TABLE MPTUNE_DEVICE_CLASS DROP COLUMN threads");
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, ReadsProfilesFromBeforeTheirVariantsHadThreads) {
  Profile profile = with_variants();
  profile.classes.pop_back();
  write({.profile = profile});
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("ALTER TABLE MPTUNE_DEVICE_CLASS DROP COLUMN threads");
  EXPECT_EQ(read_recording(path()).profile, profile);
}

TEST_F(RoundTrip, OfOddButValidTracesIsExact) {
  Trace trace = testing::hand_trace();
  trace.events[0].start = Nanoseconds{-12345};
  trace.steps[0].start = Nanoseconds{-20000};
  trace.names.push_back(trace.names[0]);
  trace.names.push_back("");
  trace.names.push_back("Grüße 'quoted' \"twice\"");
  trace.threads.push_back("no work");
  trace.started_utc_ns = 0;
  trace.simulated = true;
  trace.ranges[0].device = -1;
  trace.launches.push_back({.event = 0, .thread = 0, .start = Nanoseconds{1}, .end = Nanoseconds{1}, .correlation = 1'000'000'000'000});
  for (Event& event : trace.events)
    if (event.kind == EventKind::copy) event.detail = -1;
  trace.copies[0] = {.bytes = 5, .source = 1, .destination = 1};
  trace.events[1].kind = EventKind::copy;
  trace.events[1].detail = 0;
  expect_same({.trace = trace});
}

TEST_F(RoundTrip, SurvivesAVacuum) {
  const Recording recording = write_hand_made();
  SQLite::Database(path(), SQLite::OPEN_READWRITE).exec("VACUUM");
  EXPECT_EQ(read_recording(path()).trace, recording.trace);
}

TEST_F(RoundTrip, SameInputSameBytes) {
  const Recording recording = write_hand_made();
  write_recording(recording, path("other.sqlite"), false);
  const auto bytes = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(bytes(path()), bytes(path("other.sqlite")));
}

TEST_F(RoundTrip, RefusesInvalidIndices) {
  const auto refuses = [&](auto&& spoil) {
    Trace trace = testing::hand_trace();
    spoil(trace);
    EXPECT_THROW(write_recording({.trace = trace}, path(), false), std::invalid_argument);
  };
  refuses([](Trace& t) { t.events[0].name = 1000; });
  refuses([](Trace& t) { t.events[0].device = 2; });
  refuses([](Trace& t) { t.events[0].tag = 1000; });
  refuses([](Trace& t) { t.events[0].duration = Nanoseconds{-1}; });
  refuses([](Trace& t) { t.events[0].kind = EventKind::step; });
  refuses([](Trace& t) { t.edges[0].producer = -1; });
  refuses([](Trace& t) { t.launches[0].thread = 7; });
  refuses([](Trace& t) { t.launches[0].correlation = t.launches[1].correlation; });
  refuses([](Trace& t) { t.memory[0].device = 9; });
  refuses([](Trace& t) { t.copies[0].destination = 9; });
  refuses([](Trace& t) { t.copies[0].bytes = -1; });
  refuses([](Trace& t) { t.events[0].detail = 0; });
  refuses([](Trace& t) { t.launches[0].event = -2; });
  refuses([](Trace& t) { t.launches[0].name = 1000; });
  refuses([](Trace& t) { t.edges.push_back({t.edges[0].consumer, t.edges[0].producer, EdgeKind::order}); });
  refuses([](Trace& t) { t.edges.push_back({3, 3, EdgeKind::order}); });
  EXPECT_EQ(files(), 0u);
}

TEST_F(RoundTrip, ReplacesOnlyItsOwnFiles) {
  write_hand_made();
  EXPECT_EQ(code_of([&] { write_recording({}, path(), false); }), ExitCode::done);
  for (const std::string content : {"precious", ""}) {
    std::ofstream(path("foreign")) << content;
    EXPECT_EQ(code_of([&] { write_recording({}, path("foreign"), false); }), ExitCode::usage);
    EXPECT_EQ(std::filesystem::file_size(path("foreign")), content.size());
  }
  EXPECT_EQ(code_of([&] { write_recording({}, path("foreign"), true); }), ExitCode::done);
  EXPECT_NO_THROW((void)read_recording(path("foreign")));
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(code_of([&] { write_recording({}, path("folder"), true); }), ExitCode::usage);
}

TEST_F(RoundTrip, NamesAFolderThatCannotBeWritten) {
  EXPECT_EQ(code_of([&] { write_recording({}, path("absent/t.sqlite"), false); }), ExitCode::usage);
  EXPECT_EQ(code_of([&] { write_recording({}, "/proc/t.sqlite", false); }), ExitCode::usage);
}

TEST_F(RoundTrip, SurvivesAFullDisk) {
  const Recording old = write_hand_made();
  std::mt19937 random(1);
  const Recording big{.trace = testing::random_trace(random, 2, 5000)};
  // A limit on the size of files stands for the full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{64 * 1024, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const ExitCode code = code_of([&] { write_recording(big, path(), true); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ExitCode::environment);
  EXPECT_EQ(read_recording(path()).trace, old.trace);
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace mptune::profiler
