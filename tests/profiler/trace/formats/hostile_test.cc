#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "profiler/base/error.h"
#include "profiler/trace/formats/any_trace.h"
#include "profiler/trace/formats/kineto.h"
#include "profiler/trace/formats/pipeline_timeline.h"
#include "profiler/trace/store/tables.h"
#include "tests/profiler/trace/formats/files.h"
#include "tests/profiler/trace/formats/refusals.h"
#include "tests/support/cases.h"

namespace mptune::profiler {
namespace {

// A reader's memory errors show in small texts, and a sanitizer makes long ones ten times slower.
constexpr const char* kOnlyLong = "tests a limit of a text's size: without a sanitizer only";

using Reader = std::function<Trace(TextInput&)>;

Trace kineto(TextInput& input) {
  return read_kineto(input);
}
Trace timeline(TextInput& input) {
  return read_pipeline_timeline(input);
}

std::string refusal(const Reader& read, const std::string& text) {
  return testing::refusal_of_text([&](TextInput& input) { (void)read(input); }, text);
}

// Ordered by start, and one after another on every lane.
void expect_leaves(const Trace& trace) {
  EXPECT_TRUE(std::ranges::is_sorted(trace.events, {}, &Event::start));
  std::map<std::pair<int, int>, Nanoseconds> until;
  for (const Event& event : trace.events) {
    const auto [lane, is_first] = until.try_emplace({event.device, event.lane}, event.end());
    EXPECT_TRUE(is_first || event.start >= lane->second) << "device " << event.device << ", lane " << int{event.lane};
    lane->second = event.end();
  }
}

void expect_refusal(const std::string& text, const std::string& part) {
  for (const Reader& read : {Reader(kineto), Reader(timeline)})
    EXPECT_NE(refusal(read, text).find(part), std::string::npos) << text.substr(0, 200) << " -> " << refusal(read, text);
}

std::string kernel(const std::string& fields) {
  return R"([{"ph":"X","cat":"kernel","name":"k","pid":0,)" + fields + "}]";
}

TEST(HostileJson, NotJson) {
  expect_refusal("", "not valid JSON");
  expect_refusal("hello", "not valid JSON");
  expect_refusal("[1, 2", "event is not an object");
  expect_refusal("[{}", "not valid JSON");
  expect_refusal("[{}] x", "not valid JSON");
  expect_refusal(R"({"traceEvents": [{"ts": NaN}]})", "not valid JSON");
  expect_refusal(R"([{"name": ")" + std::string("\xff\xfe") + "\"}]", "not valid JSON");
  expect_refusal(R"([{"ts": 1e999}])", "out of range");
}

TEST(HostileJson, NotATrace) {
  expect_refusal("7", "no list of events");
  expect_refusal("null", "no list of events");
  expect_refusal("{}", "no list of events");
  expect_refusal(R"({"traceEvents": 5})", "no list of events");
  expect_refusal(R"({"traceEvents": {"a": []}})", "no list of events");
  expect_refusal("[[]]", "event is not an object");
  expect_refusal("[null]", "event is not an object");
  expect_refusal("[\"x\"]", "event is not an object");
  expect_refusal("[]", "it holds no");
  expect_refusal("[{}]", "it holds no");
}

TEST(HostileJson, WrongTypes) {
  for (const char* value : {"\"one\"", "null", "true", "[1]", "{}"}) {
    expect_refusal(kernel(std::string("\"ts\":") + value), "ts is not a number");
    expect_refusal(kernel(std::string("\"ts\":1,\"dur\":") + value), "dur is not a number");
  }
  // What is not needed may be anything.
  const std::string odd = R"([{"ph":"X","cat":"kernel","name":{"a":[1]},"pid":0,"tid":[],"ts":1,"dur":1,"args":{"stream":"x",
    "correlation":{"y":1},"bytes":1e300,"context":-1,"grid":[1,[2],3,4,5,99999999999999999999],"block":{"x":1}}},
    {"ph":"X","cat":"kernel","name":"k","pid":0,"ts":5,"args":[1,2]},{"ph":7,"cat":[],"name":null}])";
  TextInput input = text_in_memory(odd.data(), odd.size());
  const Trace trace = read_kineto(input);
  EXPECT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(inconsistency(trace), "");
}

TEST(HostileJson, NumbersOutOfRange) {
  for (const char* value : {"99999999999999999999", "-99999999999999999999", "9223372036854775807", "1e300", "-1e18", "3000000000000000.5",
                            "123456789012345678901234567890.123"}) {
    const std::string text = kernel(std::string("\"ts\":") + value);
    EXPECT_NE(refusal(timeline, text).find("ts is out of range"), std::string::npos) << value;
    EXPECT_NE(refusal(kineto, text).find(std::string("kernel 'k' on cuda:0, stream 0: ts ") + value), std::string::npos) << value;
  }
  EXPECT_NE(refusal(kineto, R"([{"ph":"X","cat":"kernel","pid":0,"ts":-2000000000000000,"dur":2000000000000000}])").find("14 months"),
            std::string::npos);
  EXPECT_NE(refusal(kineto, kernel("\"ts\":1,\"dur\":-5"))
                .find("can't be right, first kernel 'k' on cuda:0, stream 0: ts 1.000, dur -5.000 [us]"),
            std::string::npos);
  std::string devices = "[";
  for (int i = 0; i < 5000; ++i) devices += R"({"ph":"X","cat":"kernel","pid":)" + std::to_string(i) + R"(,"ts":1},)";
  devices.back() = ']';
  EXPECT_NE(refusal(kineto, devices).find("4096 devices"), std::string::npos);
  std::string copies = "[";
  for (int i = 0; i < 3; ++i) copies += R"({"ph":"X","cat":"gpu_memcpy","pid":0,"ts":1,"args":{"bytes":600000000000000000}},)";
  copies.back() = ']';
  EXPECT_NE(refusal(kineto, copies).find("bytes"), std::string::npos) << "their sum would not fit";
}

TEST(HostileJson, DeepNesting) {
  expect_refusal(std::string(1000000, '['), "event is not an object");
  std::string objects = "[{\"args\":";
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  expect_refusal(objects, "deeper than 64");
  expect_refusal("{\"x\":" + std::string(100000, '['), "deeper than 64");
}

TEST(HostileJson, OverlappingNonsense) {
  std::string text = "[";
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::string kind = i % 7 == 0   ? R"("cat":"user_annotation","name":"ProfilerStep#)" + std::to_string(random() % 5) + "\""
                             : i % 3 == 0 ? R"("cat":"cuda_runtime","name":"c")"
                                          : R"("cat":"kernel","name":"k")";
    text += R"({"ph":"X",)" + kind + R"(,"pid":)" + std::to_string(random() % 3) + R"(,"ts":)" + std::to_string(random() % 100) +
            R"(,"dur":)" + std::to_string(random() % 100) + R"(,"args":{"stream":)" + std::to_string(random() % 400) +
            R"(,"correlation":)" + std::to_string(random() % 10) + "}},";
  }
  text.back() = ']';
  TextInput input = text_in_memory(text.data(), text.size());
  const Trace trace = read_kineto(input);
  EXPECT_EQ(inconsistency(trace), "");
  EXPECT_GT(trace.quality.dropped, 0);
  expect_leaves(trace);
  for (std::size_t i = 1; i < trace.steps.size(); ++i) EXPECT_LE(trace.steps[i - 1].end, trace.steps[i].start);
}

TEST(HostileTimeline, OtherTimelines) {
  const std::string compute =
      R"(,{"ph":"X","name":"forward-compute","pid":0,"tid":0,"ts":1,"dur":1,"args":{"step":0,"mb_id":0,"model_chunk":99999999}}])";
  const auto named = [&](const std::string& name) {
    return R"([{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":")" + name + "\"}}" + compute;
  };
  EXPECT_NE(refusal(timeline, named("python")).find("no computation"), std::string::npos);
  EXPECT_NE(refusal(timeline, named("PP rank -5, compute")).find("no computation"), std::string::npos);
  EXPECT_NE(refusal(timeline, named("PP rank 1000000000, compute")).find("253"), std::string::npos);
  EXPECT_NE(refusal(timeline, named("PP rank 99999999999999999999, compute")).find("no computation"), std::string::npos);
  const std::string good = named("PP rank 252, compute");
  TextInput input = text_in_memory(good.data(), good.size());
  EXPECT_EQ(read_pipeline_timeline(input).devices.size(), 253U);
}

// Everyone waits for everyone: few rows, very many edges.
TEST(HostileTimeline, CollectivesOfVeryMany) {
  std::string text = R"([{"ph":"X","name":"forward-compute","pid":0,"tid":0,"ts":0,"dur":1,"args":{"step":0}})";
  for (int worker = 0; worker < 253; ++worker) {
    const std::string at = R"("pid":)" + std::to_string(worker) + R"(,"tid":0)";
    text += R"(,{"ph":"M","name":"thread_name",)" + at + R"(,"args":{"name":"PP rank 0, dp-comm"}})";
    for (int i = 0; i < 131; ++i) text += R"(,{"ph":"X","name":"clip",)" + at + R"(,"ts":)" + std::to_string(i) + R"(,"args":{"step":0}})";
  }
  EXPECT_NE(refusal(timeline, text + "]").find("16 million"), std::string::npos);
}

class HostileFiles : public testing::Files {
 protected:
  static std::string refusal_of(const std::string& path) {
    const Error error = testing::error_of([&] { (void)read_any_trace(path); });
    EXPECT_EQ(error.where(), path);
    return error.problem();
  }
};

TEST_F(HostileFiles, OtherFiles) {
  EXPECT_NE(refusal_of(path("absent")).find("can't be opened"), std::string::npos);
  EXPECT_NE(refusal_of(std::filesystem::path(path("x")).parent_path().string()).find("folder"), std::string::npos);
  EXPECT_NE(refusal_of(put("empty", "")).find("not a trace"), std::string::npos);
  EXPECT_NE(refusal_of(put("binary", std::string("\0\1\2\3", 4))).find("not a trace"), std::string::npos);
}

TEST_F(HostileFiles, BrokenCompression) {
  const std::string text = "[" + std::string(100000, ' ') + kernel("\"ts\":1").substr(1);
  const std::string whole = bytes(put_gz("whole.gz", text));
  EXPECT_EQ(read_any_trace(path("whole.gz")).events.size(), 1U);
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{20}, std::size_t{11}})
    EXPECT_NE(refusal_of(put("cut.gz", whole.substr(0, size))).find("truncated"), std::string::npos) << size;
  std::string spoiled = whole;
  spoiled[whole.size() / 2] = static_cast<char>(spoiled[whole.size() / 2] ^ 0x55);
  EXPECT_FALSE(refusal_of(put("spoiled.gz", spoiled)).empty());
}

TEST_F(HostileFiles, ASmallFileThatUnpacksToMuch) {
  EXPECT_NE(refusal_of(put_gz("string.gz", "[{\"name\":\"" + std::string(20 << 20, 'a') + "\"}]")).find("16 MiB"), std::string::npos);
  EXPECT_NE(refusal_of(put_gz("blanks.gz", "[" + std::string(20 << 20, ' ') + "]")).find("16 MiB"), std::string::npos);
}

// Valid events, of which each is small: 300 MB of text in a file of less than one.
TEST_F(HostileFiles, ASmallFileOfMuchThatIsValid) {
  if (testing::kSanitized) GTEST_SKIP() << kOnlyLong;
  const std::string event = R"({"ph":"M","name":"note","pid":0,"args":{"text":")" + std::string(100'000, 'a') + "\"}},";
  const gzFile file = gzopen(path("bomb.gz").c_str(), "wb1");
  gzputs(file, "[");
  for (int i = 0; i < 3000; ++i) gzwrite(file, event.data(), static_cast<unsigned>(event.size()));
  gzputs(file, (kernel("\"ts\":1").substr(1)).c_str());
  gzclose(file);
  EXPECT_LT(std::filesystem::file_size(path("bomb.gz")), 3U << 20);
  EXPECT_NE(refusal_of(path("bomb.gz")).find("unpacks to more than 256 MiB"), std::string::npos) << refusal_of(path("bomb.gz"));
  ::setenv("MPTUNE_UNPACKED_GIB", "1", 1);
  EXPECT_EQ(read_any_trace(path("bomb.gz")).events.size(), 1U);
  ::setenv("MPTUNE_UNPACKED_GIB", "some", 1);
  EXPECT_EQ(testing::error_of([&] { (void)read_any_trace(path("bomb.gz")); }).where(), "MPTUNE_UNPACKED_GIB");
  ::unsetenv("MPTUNE_UNPACKED_GIB");
}

TEST(HostileText, MuchWithoutAnEvent) {
  if (testing::kSanitized) GTEST_SKIP() << kOnlyLong;
  constexpr std::int64_t kMiB = 1 << 20;
  std::vector<char> block(kMiB);
  // Reads 700 MiB. `items`: after each MiB one was there.
  const auto read = [&](TextInput& input, bool items) {
    input.item();
    for (int i = 0; i < 700 && input.sgetn(block.data(), kMiB) > 0; ++i) {
      input.token();
      if (items) input.item();
    }
  };
  const TextInput::Read endless = [](char*, std::size_t size) { return size; };
  TextInput with("long", endless), without("long", endless);
  read(with, true);
  EXPECT_EQ(with.position(), 700 * kMiB);
  const Error error = testing::error_of([&] { read(without, false); });
  EXPECT_NE(error.problem().find("512 MiB of its text hold no event"), std::string::npos) << error.problem();
}

TEST(HostileText, MoreThanTheLimit) {
  if (testing::kSanitized) GTEST_SKIP() << kOnlyLong;
  TextInput input("endless", [](char*, std::size_t size) { return size; });
  std::vector<char> block(std::size_t{1} << 20);
  const auto drain = [&] {
    while (input.sgetn(block.data(), static_cast<std::streamsize>(block.size())) > 0) input.token();
  };
  EXPECT_THROW(drain(), Error);
  EXPECT_GT(input.position(), std::int64_t{4} << 30);
}

TEST(HostileText, FlippedBytesNeverCrash) {
  const std::string thread = R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"PP rank 0, TP rank 0, compute"}},)";
  const std::string whole = "[" + thread +
                            R"({"ph":"X","cat":"kernel","name":"forward-compute","pid":0,"tid":0,"ts":10.5,"dur":3.25,"args":{"step":1,
    "mb_id":0,"stream":7,"correlation":3,"grid":[1,2,3]}},{"ph":"X","cat":"cuda_runtime","name":"ProfilerStep#1","pid":0,"tid":0,
    "ts":1,"dur":2,"args":{"correlation":3,"step":1}}])";
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string spoiled = whole;
    for (int i = 0; i < 3; ++i) spoiled[random() % spoiled.size()] = static_cast<char>(random() % 128);
    for (const Reader& read : {Reader(kineto), Reader(timeline)}) {
      TextInput input = text_in_memory(spoiled.data(), spoiled.size());
      try {
        const Trace trace = read(input);
        EXPECT_EQ(inconsistency(trace), "");
        expect_leaves(trace);
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mptune::profiler
