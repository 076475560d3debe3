#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "planner/search/make_plan.h"
#include "profiler/base/error.h"
#include "tuner/worker/messages.h"

namespace mptune::tuner {
namespace {

Plan some_plan() {
  PlanOptions options;
  options.devices = {"cpu:0", "cpu:1"};
  options.batch = 10;
  options.layers = 5;
  options.cuts = {2};
  options.microbatches = 3;
  options.recompute = "1";
  return make_plan(options);
}

TrainingSetup some_setup() {
  TrainingSetup setup;
  setup.model = "transformer:d=256,layers=8";
  setup.input = "3x64x64";
  setup.batch = 32;
  setup.devices = {"cpu:0", "cpu:1"};
  setup.pools = {"cpu:0-1/auto"};
  setup.whole_machine = "cpu:0-1";
  setup.link = {12e9, 10e-6};
  setup.memory_bytes = {{"cpu:0", 1L << 40}, {"cpu:1", 5}};
  setup.reduce = Reduce::all_reduce;
  setup.optimizer = parse_optimizer("adamw:beta2=0.95:weight_decay=0.1:decay=matrices");
  setup.learning_rate = 0.1 + 0.2;
  setup.loss = "mse";
  setup.seed = std::numeric_limits<std::uint64_t>::max();
  setup.data = "a \"quoted\"\npath\\ \xC3\xA4";
  setup.sleep_profile = "p.sqlite";
  setup.rank_call = 6;
  return setup;
}

Prediction some_prediction() {
  return {1.0 / 3, 1.0 / 7, {123456789012345, 2}, {0.1, 1e-300}, 1, true};
}

Samples some_samples() {
  Samples samples;
  samples.values = {{1.0 / 3, 4, 5, 6.7}, {5e-324, 1, 0, -0.0}, {std::numeric_limits<double>::max(), 2, 3, 1e22}};
  return samples;
}

// What is encoded, decoded and encoded again must be the same text, and no field may have kept its default.
template <class Variant, class T>
T round_trip(const T& message, Variant (*decode)(const std::string&)) {
  const std::string line = encode(Variant(message));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Variant back = decode(line);
  EXPECT_EQ(encode(back), line);
  EXPECT_TRUE(std::holds_alternative<T>(back));
  return std::get<T>(back);
}

TEST(Messages, RequestsKeepEveryField) {
  const auto describe_back = round_trip<Request>(DescribeRequest{some_setup(), true}, decode_request);
  EXPECT_EQ(describe_back.setup, some_setup());
  EXPECT_TRUE(describe_back.all_models);

  const auto measure = round_trip<Request>(MeasureRequest{some_setup(), "out.sqlite", 12.5, true, true, {1, 3}, 7.5, 9.5}, decode_request);
  EXPECT_EQ(measure.path, "out.sqlite");
  EXPECT_EQ(measure.budget_s, 12.5);
  EXPECT_TRUE(measure.channels_last);
  EXPECT_TRUE(measure.replaced_kernels);
  EXPECT_EQ(measure.threads, (std::vector<int>{1, 3}));
  EXPECT_EQ(measure.started_s, 7.5);
  EXPECT_EQ(measure.most_s, 9.5);

  Series series;
  series.entries = {{"candidate", some_plan(), some_prediction(), 7}, {"current", some_plan(), std::nullopt}};
  series.warm_up = 3;
  series.rounds = 17;
  series.least_rounds = 6;
  series.budget_s = 1.1;
  series.step_limit_s = 2.2;
  series.ends_s = 4.4;
  const auto timed = round_trip<Request>(SeriesRequest{some_setup(), series, 3.25}, decode_request);
  EXPECT_EQ(timed.started_s, 3.25);
  ASSERT_EQ(timed.series.entries.size(), 2u);
  EXPECT_EQ(timed.series.entries[0].name, "candidate");
  EXPECT_EQ(timed.series.entries[0].plan, some_plan());
  EXPECT_EQ(timed.series.entries[0].prediction, some_prediction());
  EXPECT_EQ(timed.series.entries[1].prediction, std::nullopt);
  EXPECT_EQ(timed.series.warm_up, 3);
  EXPECT_EQ(timed.series.entries[0].importance, 7);
  EXPECT_EQ(timed.series.rounds, 17);
  EXPECT_EQ(timed.series.least_rounds, 6);
  EXPECT_EQ(timed.series.budget_s, 1.1);
  EXPECT_EQ(timed.series.step_limit_s, 2.2);
  EXPECT_EQ(timed.series.ends_s, 4.4);
  series.ends_s = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_trip<Request>(SeriesRequest{some_setup(), series, 3.25}, decode_request).series.ends_s, series.ends_s);

  const auto record = round_trip<Request>(RecordRequest{some_setup(), some_plan(), 9, "t.sqlite", "p.sqlite"}, decode_request);
  EXPECT_EQ(record.plan, some_plan());
  EXPECT_EQ(record.steps, 9);
  EXPECT_EQ(record.path, "t.sqlite");
  EXPECT_EQ(record.profile_path, "p.sqlite");

  const auto train = round_trip<Request>(TrainRequest{some_setup(), some_plan(), 11, "in.pt", "out.pt", "kept", 40, "log.csv", 5, 0.5, true,
                                                      3, true, "held", 0.25, "cosine:warmup=5%"},
                                         decode_request);
  EXPECT_EQ(train.rate_schedule, "cosine:warmup=5%");
  EXPECT_EQ(train.steps, 11);
  EXPECT_EQ(train.load, "in.pt");
  EXPECT_EQ(train.checkpoint, "kept");
  EXPECT_EQ(train.every, 5);
  EXPECT_EQ(train.clip_norm, 0.5);
  EXPECT_TRUE(train.skip_non_finite);
  EXPECT_EQ(train.epochs, 3);
  EXPECT_TRUE(train.drop_last);
  EXPECT_EQ(train.validation_data, "held");
  EXPECT_EQ(train.validation_share, 0.25);
  EXPECT_EQ(train.save, "out.pt");
  EXPECT_EQ(round_trip<Request>(DoctorRequest{some_setup()}, decode_request).setup, some_setup());
  const auto check = round_trip<Request>(CheckRequest{some_setup(), some_plan(), 2.5, 1.5}, decode_request);
  EXPECT_EQ(check.setup, some_setup());
  EXPECT_EQ(check.plan, some_plan());
  EXPECT_EQ(check.budget_s, 2.5);
  EXPECT_EQ(check.started_s, 1.5);
  EXPECT_EQ(round_trip<Request>(CheckRequest{some_setup(), std::nullopt, 0}, decode_request).plan, std::nullopt);
  round_trip<Request>(StoreRequest{}, decode_request);
  EXPECT_EQ(round_trip<Request>(ServeRequest{some_setup()}, decode_request).setup.rank_call, 6);
  EXPECT_EQ(round_trip<Request>(EndRanksRequest{{}, 5}, decode_request).exit_code, 5);
}

TEST(Messages, RepliesKeepEveryField) {
  const auto hello = round_trip<Reply>(Hello{7, "0.1", "2.11", "13"}, decode_reply);
  EXPECT_EQ(hello.protocol, 7);
  EXPECT_EQ(hello.version + hello.libtorch + hello.cuda, "0.12.1113");
  const auto disturbed = round_trip<Reply>(RoundsDisturbed{{3, 5, {DisturbedBy::slow_clock, 0.25}}}, decode_reply).rounds;
  EXPECT_EQ(disturbed.first, 3);
  EXPECT_EQ(disturbed.last, 5);
  EXPECT_EQ(disturbed.disturbance, (Disturbance{DisturbedBy::slow_clock, 0.25}));
  EXPECT_EQ(round_trip<Reply>(Progress{"layer costs", 0.3}, decode_reply).fraction, 0.3);
  EXPECT_EQ(round_trip<Reply>(Warned{"no costs"}, decode_reply).text, "no costs");

  ProfileLayer layer{"layer1.0", "Bottleneck", {"layer1.0", "relu"}, 1L << 40, 5, 6, true};
  DescribedModel model{"resnet50", "k=1",       "words", 25557032,
                       {layer},    "3x224x224", 32,      {"sha256:1", "3x4:float32", {"cpu:0"}, "2.11", "13"},
                       true,       "deprecated"};
  const auto described = round_trip<Reply>(Described{{model}}, decode_reply);
  ASSERT_EQ(described.models.size(), 1u);
  EXPECT_EQ(described.models[0].warning, "deprecated");
  EXPECT_TRUE(described.models[0].convolutions);
  EXPECT_EQ(described.models[0].layers, model.layers);
  EXPECT_EQ(described.models[0].fingerprint, model.fingerprint);
  EXPECT_EQ(described.models[0].parameters, 25557032);
  EXPECT_EQ(described.models[0].parameters_text + described.models[0].description + described.models[0].input, "k=1words3x224x224");
  EXPECT_EQ(described.models[0].batch, 32);

  const auto started = round_trip<Reply>(StepStarted{3, -1}, decode_reply);
  EXPECT_EQ(started.entry * 10 + started.round, 29);
  const auto timed = round_trip<Reply>(StepTimed{1, 2, 3, 4.5, 6.7}, decode_reply);
  EXPECT_EQ(timed.entry * 100 + timed.round * 10 + timed.position, 123);
  EXPECT_EQ(timed.started_s + timed.step_s, 4.5 + 6.7);
  const auto recorded = round_trip<Reply>(Recorded{0.1, 0.2, {3, 4}, some_samples(), "no GPUs", 0.3}, decode_reply);
  EXPECT_EQ(recorded.step_s, some_samples());
  EXPECT_EQ(recorded.peak_bytes, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(recorded.warning, "no GPUs");
  EXPECT_EQ(recorded.clock_error_s, 0.3);
  EXPECT_EQ(recorded.step_on_s, 0.2);
  EXPECT_EQ(recorded.step_off_s, 0.1);
  EXPECT_EQ(round_trip<Reply>(Trained{3, 0.25, 0.5, 1, 8, 9}, decode_reply).samples, 8);
  const auto epoch = round_trip<Reply>(EpochFinished{1, 7, 0.5, 0.25, std::nullopt}, decode_reply);
  EXPECT_EQ(epoch.step, 7);
  EXPECT_EQ(epoch.validation_loss, 0.25);
  EXPECT_FALSE(epoch.accuracy);
  const auto finished =
      round_trip<Reply>(TrainingFinished{2, 1, "kept/step-2", "kept/step-4", some_samples(), {1.5, 0.1}, {epoch}, {9}}, decode_reply);
  EXPECT_EQ(finished.loss, (std::vector<double>{1.5, 0.1}));
  EXPECT_EQ(finished.first_step, 2);
  EXPECT_EQ(finished.epochs.at(0).loss, 0.5);
  EXPECT_EQ(finished.skipped_steps, 1);
  EXPECT_EQ(finished.resumed_from, "kept/step-2");
  EXPECT_EQ(finished.checkpoint, "kept/step-4");
  const auto findings = round_trip<Reply>(Findings{{{"libtorch", FindingStatus::warning, "2.11", "none"}}}, decode_reply);
  ASSERT_EQ(findings.findings.size(), 1u);
  EXPECT_EQ(findings.findings[0].name + findings.findings[0].value + findings.findings[0].remedy, "libtorch2.11none");
  EXPECT_EQ(findings.findings[0].status, FindingStatus::warning);
  const CheckDifference difference{"output", 3, "drop", "aten.rand_like", std::numeric_limits<double>::infinity(), true};
  const CheckPart again{"again", "a with b", "no time", true, 5, 4, 0.25, "loss", 1e-5, true, difference, "draw less"};
  const CheckResult result{4, {3, 1}, {again, {}}};
  EXPECT_EQ(round_trip<Reply>(Checked{result}, decode_reply).result, result);
  round_trip<Reply>(RanksLost{}, decode_reply);
  round_trip<Reply>(StoreOpen{}, decode_reply);
  round_trip<Reply>(Serving{}, decode_reply);
  EXPECT_EQ(round_trip<Reply>(NothingToServe{4}, decode_reply).exit_code, 4);
  const auto pass = round_trip<Reply>(PassTimed{4, 0.75}, decode_reply);
  EXPECT_EQ(pass.samples, 4);
  EXPECT_EQ(pass.seconds, 0.75);
  round_trip<Reply>(Done{}, decode_reply);
  const auto failed = round_trip<Reply>(Failed{"a", "b", "c", 7, OutOfMemory{"cpu:1", 5, 4}}, decode_reply);
  EXPECT_EQ(failed.outcome, Outcome(OutOfMemory{"cpu:1", 5, 4}));
  EXPECT_EQ(round_trip<Reply>(Failed{"a", "b", "c", 7, std::nullopt}, decode_reply).outcome, std::nullopt);
  EXPECT_EQ(failed.what + failed.where + failed.remedy, "abc");
  EXPECT_EQ(failed.exit_code, 7);
}

TEST(Messages, EveryOutcomeComesBack) {
  const std::vector<Outcome> outcomes{Measured{some_samples(), {1, 2}, 0.7},
                                      OutOfMemory{"cpu:1", 5, 4},
                                      TimedOut{1.5},
                                      Crashed{11, 3},
                                      WrongResult{"loss differs"},
                                      NonFinite{},
                                      Infeasible{"no"},
                                      Interrupted{},
                                      Environment{"disk"}};
  ASSERT_EQ(outcomes.size(), std::variant_size_v<Outcome>);
  for (const Outcome& outcome : outcomes) {
    const auto back = round_trip<Reply>(EntryFinished{3, outcome}, decode_reply);
    EXPECT_EQ(back.outcome, outcome) << outcome_class(outcome);
    EXPECT_EQ(back.entry, 3);
  }
}

TEST(Messages, DoublesSurviveExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    const double back = std::get<Progress>(decode_reply(encode(Reply(Progress{"x", value})))).fraction;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(back));
    } else {
      EXPECT_EQ(back, value);
      EXPECT_EQ(std::signbit(back), std::signbit(value));
    }
  }
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(std::get<Trained>(decode_reply(encode(Reply(Trained{0, -inf, inf})))).loss, -inf);
}

TEST(Messages, HostileLinesAreInternalErrors) {
  const std::string good = encode(Request(RecordRequest{some_setup(), some_plan(), 9, "t", "p"}));
  std::vector<std::string> lines{"",
                                 "{",
                                 "null",
                                 "[]",
                                 "3",
                                 "{}",
                                 R"({"type":3})",
                                 R"({"type":"nonsense"})",
                                 R"({"type":"record"})",
                                 R"({"type":"hello"})",
                                 std::string(100000, '['),
                                 std::string("\0\xFF\xFE", 3)};
  for (std::size_t cut = 1; cut < good.size(); cut += 7) lines.push_back(good.substr(0, cut));
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const auto place = line.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    lines.push_back(line.replace(place, from.size(), to));
  };
  broken("\"steps\":9", "\"steps\":99999999999");
  broken("\"steps\":9", "\"steps\":9.5");
  broken("\"steps\":9", "\"steps\":\"9\"");
  broken("0F0", "0F7");
  broken("\"path\":\"t\"", "\"path\":[]");
  for (const std::string& line : lines) {
    try {
      static_cast<void>(decode_request(line));
      ADD_FAILURE() << line.substr(0, 200);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal) << line.substr(0, 200);
      EXPECT_FALSE(error.remedy().empty());
    }
  }
  EXPECT_THROW(static_cast<void>(decode_reply(R"({"type":"step_timed","entry":0})")), Error);
}

using Json = nlohmann::json;

/// Every value of a message in turn is each of many odd ones, or is gone: the rest of the message is as it should be.
template <class Message>
void expect_odd_values_are_refused(const Message& message, Message (*decode)(const std::string&)) {
  const Json whole = Json::parse(encode(message));
  const std::vector<Json> odd{nullptr,
                              true,
                              -1,
                              0,
                              1.5,
                              1e308,
                              std::numeric_limits<std::int64_t>::min(),
                              std::numeric_limits<std::uint64_t>::max(),
                              "",
                              "x",
                              "inf",
                              std::string(5000, '9'),
                              "\xE2\x80\xAE\x1B[2J",
                              Json::array(),
                              Json::array({Json::array(), nullptr}),
                              Json::object(),
                              Json{{"type", "done"}}};
  std::vector<Json::json_pointer> places;
  const Json flat = whole.flatten();
  for (const auto& [place, value] : flat.items()) {
    for (Json::json_pointer pointer(place); !pointer.empty(); pointer = pointer.parent_pointer())
      if (std::find(places.begin(), places.end(), pointer) == places.end()) places.push_back(pointer);
  }
  const auto decoded = [&](const Json& changed, const std::string& what) {
    try {
      (void)encode(decode(changed.dump()));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::internal) << what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  };
  for (const Json::json_pointer& place : places) {
    for (const Json& value : odd) {
      Json changed = whole;
      changed[place] = value;
      decoded(changed, place.to_string() + " is " + value.dump().substr(0, 50));
    }
    if (Json changed = whole; changed[place.parent_pointer()].is_object()) {
      changed[place.parent_pointer()].erase(place.back());
      decoded(changed, place.to_string() + " is gone");
    }
  }
}

TEST(Messages, OddValuesOfRequestsAreRefused) {
  Series series;
  series.entries = {{"candidate", some_plan(), some_prediction(), 7}, {"current", some_plan(), std::nullopt}};
  const std::vector<Request> requests{DescribeRequest{some_setup(), true},
                                      MeasureRequest{some_setup(), "out.sqlite", 12.5, true, true, {1, 3}, 7.5, 9.5},
                                      SeriesRequest{some_setup(), series, 3.25},
                                      RecordRequest{some_setup(), some_plan(), 9, "t.sqlite", "p.sqlite"},
                                      TrainRequest{some_setup(), some_plan(), 11, "in.pt", "out.pt", "kept", 40, "log.csv", 5, 0.5, true, 3,
                                                   true, "held", 0.25, "cosine:warmup=5%"},
                                      CheckRequest{some_setup(), some_plan(), 2.5, 1.5},
                                      EndRanksRequest{{}, 5}};
  for (const Request& request : requests) expect_odd_values_are_refused<Request>(request, decode_request);
}

TEST(Messages, OddValuesOfRepliesAreRefused) {
  const std::vector<Reply> replies{Hello{kProtocolVersion, "0.1.0", "2.11.0", "13.0"},
                                   Progress{"layer costs", 0.5},
                                   StepStarted{1, 2},
                                   StepTimed{1, 2, 3, 4.5, 0.25},
                                   EntryFinished{1, Measured{some_samples(), {1, 2}, 0.5}},
                                   EntryFinished{1, OutOfMemory{"cpu:0", 100, 50}},
                                   Trained{3, 0.5, 0.25},
                                   NothingToServe{3},
                                   Failed{"what", "where", "remedy", 3, OutOfMemory{"cpu:0", 100, 50}}};
  for (const Reply& reply : replies) expect_odd_values_are_refused<Reply>(reply, decode_reply);
}

}  // namespace
}  // namespace mptune::tuner
