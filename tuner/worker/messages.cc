#include "tuner/worker/messages.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "planner/plan/file/plan_file.h"
#include "planner/plan/file/plan_json.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/json_field.h"

namespace mptune::tuner {
namespace {

using Json = nlohmann::json;

struct Writer {
  Json& object;
  template <class T>
  void operator()(const char* key, const T& value);
};
struct Reader {
  const JsonField& object;
  template <class T>
  void operator()(const char* key, T& value);
};

// One list of fields per type serves both directions, so that what is written is what is read.
// clang-format off
#define MPTUNE_FIELDS(Type, ...) template <class F> void fields(F& f, Type& v) { __VA_ARGS__ } \
                                 template <class F> void fields(F& f, const Type& v) { __VA_ARGS__ }
MPTUNE_FIELDS(LinkThrottle, f("bytes_per_second", v.bytes_per_second); f("latency_s", v.latency_s);)
MPTUNE_FIELDS(TrainingSetup, f("model", v.model); f("input", v.input); f("batch", v.batch); f("devices", v.devices); f("pools", v.pools);
              f("whole_machine", v.whole_machine); f("link", v.link); f("memory_bytes", v.memory_bytes); f("reduce", v.reduce);
              f("optimizer", v.optimizer); f("learning_rate", v.learning_rate); f("precision", v.precision); f("loss", v.loss);
              f("seed", v.seed); f("data", v.data);
              f("sleep_profile", v.sleep_profile); f("rank_call", v.rank_call);)
MPTUNE_FIELDS(Sample, f("value", v.value); f("round", v.round); f("position", v.position); f("started", v.started);)
MPTUNE_FIELDS(Samples, f("values", v.values);)
MPTUNE_FIELDS(Prediction, f("step_s", v.step_s); f("lower_bound_s", v.lower_bound_s); f("peak_bytes", v.peak_bytes);
              f("busy_s", v.busy_s); f("limiting_stage", v.limiting_stage); f("extrapolated", v.extrapolated);)
MPTUNE_FIELDS(Series::Entry, f("name", v.name); f("plan", v.plan); f("prediction", v.prediction); f("importance", v.importance);)
MPTUNE_FIELDS(Series, f("entries", v.entries); f("warm_up", v.warm_up); f("rounds", v.rounds); f("least_rounds", v.least_rounds);
              f("budget_s", v.budget_s); f("step_limit_s", v.step_limit_s); f("ends_s", v.ends_s);)
MPTUNE_FIELDS(Measured, f("step_s", v.step_s); f("peak_bytes", v.peak_bytes); f("loss", v.loss);)
MPTUNE_FIELDS(OutOfMemory, f("device", v.device); f("requested_bytes", v.requested_bytes); f("cap_bytes", v.cap_bytes);)
MPTUNE_FIELDS(TimedOut, f("limit_s", v.limit_s); f("doing", v.doing);)
MPTUNE_FIELDS(Crashed, f("signal", v.signal); f("exit_code", v.exit_code); f("doing", v.doing);)
MPTUNE_FIELDS(WrongResult, f("reason", v.reason);)
MPTUNE_FIELDS(NonFinite, (void)f; (void)v;)
MPTUNE_FIELDS(Infeasible, f("reason", v.reason);)
MPTUNE_FIELDS(Interrupted, (void)f; (void)v;)
MPTUNE_FIELDS(Environment, f("reason", v.reason);)
MPTUNE_FIELDS(Fingerprint, f("model", v.model); f("input", v.input); f("devices", v.devices); f("libtorch", v.libtorch); f("cuda", v.cuda);)
MPTUNE_FIELDS(ProfileLayer, f("name", v.name); f("kind", v.kind); f("modules", v.modules); f("parameters", v.parameters);
              f("parameters_bytes", v.parameters_bytes); f("buffers_bytes", v.buffers_bytes); f("batch_statistics", v.batch_statistics);
              f("least_samples", v.samples.least); f("most_samples", v.samples.most);)

MPTUNE_FIELDS(DescribeRequest, f("setup", v.setup); f("all_models", v.all_models);)
MPTUNE_FIELDS(MeasureRequest, f("setup", v.setup); f("path", v.path); f("budget_s", v.budget_s);
              f("channels_last", v.channels_last); f("replaced_kernels", v.replaced_kernels);
              f("threads", v.threads); f("started_s", v.started_s); f("most_s", v.most_s); f("estimate", v.estimate);)
MPTUNE_FIELDS(SeriesRequest, f("setup", v.setup); f("series", v.series); f("started_s", v.started_s);)
MPTUNE_FIELDS(RecordRequest, f("setup", v.setup); f("plan", v.plan); f("steps", v.steps); f("path", v.path);
              f("profile_path", v.profile_path);)
MPTUNE_FIELDS(TrainRequest, f("setup", v.setup); f("plan", v.plan); f("steps", v.steps); f("load", v.load); f("save", v.save);
              f("checkpoint", v.checkpoint); f("checkpoint_step", v.checkpoint_step); f("csv", v.csv); f("every", v.every); f("clip_norm", v.clip_norm); f("skip_non_finite", v.skip_non_finite);
              f("epochs", v.epochs); f("drop_last", v.drop_last); f("validation_data", v.validation_data);
              f("validation_share", v.validation_share); f("rate_schedule", v.rate_schedule);)
MPTUNE_FIELDS(DoctorRequest, f("setup", v.setup);)
MPTUNE_FIELDS(CheckRequest, f("setup", v.setup); f("plan", v.plan); f("budget_s", v.budget_s); f("started_s", v.started_s);)

MPTUNE_FIELDS(StoreRequest, f("setup", v.setup);)
MPTUNE_FIELDS(ServeRequest, f("setup", v.setup);)
MPTUNE_FIELDS(EndRanksRequest, f("setup", v.setup); f("exit_code", v.exit_code);)

MPTUNE_FIELDS(Hello, f("protocol", v.protocol); f("version", v.version); f("libtorch", v.libtorch); f("cuda", v.cuda);)
MPTUNE_FIELDS(Progress, f("what", v.what); f("fraction", v.fraction);)
MPTUNE_FIELDS(Warned, f("text", v.text);)
MPTUNE_FIELDS(DescribedModel, f("name", v.name); f("parameters_text", v.parameters_text); f("description", v.description);
              f("parameters", v.parameters); f("layers", v.layers); f("input", v.input); f("batch", v.batch); f("fingerprint", v.fingerprint);
              f("convolutions", v.convolutions); f("warning", v.warning);)
MPTUNE_FIELDS(Described, f("models", v.models);)
MPTUNE_FIELDS(StepStarted, f("entry", v.entry); f("round", v.round);)
MPTUNE_FIELDS(StepTimed, f("entry", v.entry); f("round", v.round); f("position", v.position); f("started_s", v.started_s);
              f("step_s", v.step_s);)
MPTUNE_FIELDS(Disturbance, f("by", v.by); f("share", v.share);)
MPTUNE_FIELDS(DisturbedRounds, f("first", v.first); f("last", v.last); f("disturbance", v.disturbance);)
MPTUNE_FIELDS(RoundsDisturbed, f("rounds", v.rounds);)
MPTUNE_FIELDS(EntryFinished, f("entry", v.entry); f("outcome", v.outcome);)
MPTUNE_FIELDS(Recorded, f("step_off_s", v.step_off_s); f("step_on_s", v.step_on_s); f("peak_bytes", v.peak_bytes); f("step_s", v.step_s);
              f("warning", v.warning); f("clock_error_s", v.clock_error_s);)
MPTUNE_FIELDS(Trained, f("step", v.step); f("loss", v.loss); f("step_s", v.step_s); f("epoch", v.epoch); f("samples", v.samples);
              f("steps", v.steps); f("learning_rate", v.learning_rate);)
MPTUNE_FIELDS(EpochFinished, f("epoch", v.epoch); f("step", v.step); f("loss", v.loss); f("validation_loss", v.validation_loss);
              f("accuracy", v.accuracy);)
MPTUNE_FIELDS(TrainingFinished, f("first_step", v.first_step); f("skipped_steps", v.skipped_steps);
              f("resumed_from", v.resumed_from); f("checkpoint", v.checkpoint); f("step_s", v.step_s);
              f("loss", v.loss); f("epochs", v.epochs); f("peak_bytes", v.peak_bytes);)
MPTUNE_FIELDS(Finding, f("name", v.name); f("status", v.status); f("value", v.value); f("remedy", v.remedy);)
MPTUNE_FIELDS(Findings, f("findings", v.findings);)
MPTUNE_FIELDS(CheckDifference, f("what", v.what); f("layer", v.layer); f("layer_name", v.layer_name); f("operation", v.operation);
              f("relative", v.relative); f("is_output", v.is_output);)
MPTUNE_FIELDS(CheckPart, f("name", v.name); f("compared", v.compared); f("left_out", v.left_out); f("no_time", v.no_time);
              f("tensors", v.tensors);
              f("bit_equal", v.bit_equal); f("largest", v.largest); f("largest_at", v.largest_at); f("tolerance", v.tolerance);
              f("only_measures", v.only_measures); f("difference", v.difference); f("remedy", v.remedy);)
MPTUNE_FIELDS(CheckResult, f("samples", v.samples); f("microbatch_sizes", v.microbatch_sizes); f("parts", v.parts);)
MPTUNE_FIELDS(Checked, f("result", v.result);)
MPTUNE_FIELDS(RanksLost, (void)f; (void)v;)
MPTUNE_FIELDS(StoreOpen, (void)f; (void)v;)
MPTUNE_FIELDS(Serving, (void)f; (void)v;)
MPTUNE_FIELDS(NothingToServe, f("exit_code", v.exit_code);)
MPTUNE_FIELDS(PassTimed, f("samples", v.samples); f("seconds", v.seconds);)
MPTUNE_FIELDS(Done, (void)f; (void)v;)
MPTUNE_FIELDS(Failed, f("what", v.what); f("where", v.where); f("remedy", v.remedy); f("exit_code", v.exit_code);
              f("outcome", v.outcome);)
#undef MPTUNE_FIELDS
// clang-format on

template <class T>
struct Names;
template <>
struct Names<Request> {
  static constexpr const char* kAll[] = {"describe", "measure", "series", "record", "train",
                                         "doctor",   "check",   "store",  "serve",  "end_ranks"};
};
template <>
struct Names<Reply> {
  static constexpr const char* kAll[] = {
      "hello",          "progress",   "warned",  "described",        "step_started",      "step_timed", "rounds_disturbed",
      "entry_finished", "recorded",   "trained", "epoch_finished",   "training_finished", "findings",   "checked",
      "ranks_lost",     "store_open", "serving", "nothing_to_serve", "pass_timed",        "done",       "failed"};
};
template <>
struct Names<Outcome> {
  static constexpr auto& kAll = kOutcomeNames;
};

template <>
struct Names<Precision> {
  static constexpr auto& kAll = kPrecisionNames;
};
template <>
struct Names<Reduce> {
  static constexpr auto& kAll = kReduceNames;
};
template <>
struct Names<DisturbedBy> {
  static constexpr auto& kAll = kDisturbedByNames;
};
template <>
struct Names<FindingStatus> {
  static constexpr auto& kAll = kFindingStatusNames;
};

// ---- values to JSON ----

Json write(const OptimizerChoice& value) {
  return text_of(value);
}
Json write(bool value) {
  return value;
}
Json write(int value) {
  return value;
}
Json write(std::int64_t value) {
  return value;
}
Json write(std::uint64_t value) {
  return value;
}
// nlohmann::json writes NaN and infinity as null, and a loss may be either.
Json write(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}
Json write(const std::string& value) {
  return value;
}
Json write(const Plan& value) {
  return Json::parse(plan_to_json(value, {}));
}
Json write(const std::map<std::string, std::int64_t>& value) {
  return value;
}
template <class T>
requires std::is_enum_v<T> Json write(const T& value) {
  return Names<T>::kAll[as_index(value)];
}
template <class T>
Json write(const T& value);

template <class... T>
Json write(const std::variant<T...>& value) {
  Json object = std::visit([](const auto& v) { return write(v); }, value);
  object["type"] = Names<std::variant<T...>>::kAll[value.index()];
  return object;
}
template <class T>
Json write(const std::vector<T>& value) {
  Json array = Json::array();
  for (const T& item : value) array.push_back(write(item));
  return array;
}
template <class T>
Json write(const std::optional<T>& value) {
  return value ? write(*value) : Json();
}
template <class T>
Json write(const T& value) {
  Json object = Json::object();
  Writer writer{object};
  fields(writer, value);
  return object;
}

// ---- JSON to values ----

void read(const JsonField& json, bool& value) {
  value = json.truth();
}
template <std::integral T>
void read(const JsonField& json, T& value) {
  value = json.whole<T>();
}
void read(const JsonField& json, double& value) {
  if (!json.is_text())
    value = json.number();
  else if (json.text() == "nan")
    value = std::numeric_limits<double>::quiet_NaN();
  else if (json.text() == "inf" || json.text() == "-inf")
    value = json.text() == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  else
    json.refuse("must be a number");
}
void read(const JsonField& json, std::string& value) {
  value = json.text();
}
void read(const JsonField& json, Plan& value) {
  value = planner::plan_from_object(json).plan;
}
void read(const JsonField& json, OptimizerChoice& value) {
  value = parse_optimizer(json.text());
}
void read(const JsonField& json, std::map<std::string, std::int64_t>& value) {
  json.each_member([&](const std::string& key, const JsonField& item) { value[key] = item.whole(); });
}
template <class T>
requires std::is_enum_v<T>
void read(const JsonField& json, T& value) {
  const std::string name = json.text();
  const auto found = std::ranges::find(Names<T>::kAll, name);
  if (found == Names<T>::kAll.end()) json.refuse("is unknown: '" + name.substr(0, 40) + "'");
  value = static_cast<T>(found - Names<T>::kAll.begin());
}
template <class T>
void read(const JsonField& json, T& value);

template <class T, std::size_t I = 0>
void read_alternative(const JsonField& json, const std::string& type, T& value) {
  if constexpr (I == std::variant_size_v<T>)
    json.at("type").refuse("is unknown: '" + type.substr(0, 40) + "'");
  else if (type == Names<T>::kAll[I])
    read(json, value.template emplace<I>());
  else
    read_alternative<T, I + 1>(json, type, value);
}
template <class... T>
void read(const JsonField& json, std::variant<T...>& value) {
  read_alternative(json, json.at("type").text(), value);
}
template <class T>
void read(const JsonField& json, std::vector<T>& value) {
  value.clear();
  json.each([&](const JsonField& item) { read(item, value.emplace_back()); });
}
template <class T>
void read(const JsonField& json, std::optional<T>& value) {
  value.reset();
  if (!json.is_null()) read(json, value.emplace());
}
template <class T>
void read(const JsonField& json, T& value) {
  Reader reader{json};
  fields(reader, value);
}

template <class T>
void Writer::operator()(const char* key, const T& value) {
  object[key] = write(value);
}
template <class T>
void Reader::operator()(const char* key, T& value) {
  read(object.at(key), value);
}

template <class T>
T decode(const std::string& line) {
  try {
    const JsonSource source{"message", "", "send a message of this protocol"};
    const Json json = parse_json(line, source);
    T value;
    read(JsonField(json, source), value);
    return value;
  } catch (const Error& error) {
    throw Error("a message between mptune and mptune-worker is broken", error.problem() + ", in '" + line.substr(0, 80) + "'",
                "make sure that both programs are of the same build; report this if they are", ExitCode::internal);
  }
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string encode(const Request& request) {
  return line_of(write(request));
}

std::string encode(const Reply& reply) {
  return line_of(write(reply));
}

Request decode_request(const std::string& line) {
  return decode<Request>(line);
}

Reply decode_reply(const std::string& line) {
  return decode<Reply>(line);
}

}  // namespace mptune::tuner
