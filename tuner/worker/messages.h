#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/rank.h"
#include "profiler/trace/values/profile.h"
#include "tuner/trial/check_result.h"
#include "tuner/trial/setup.h"
#include "tuner/trial/trial.h"

namespace mptune::tuner {

/// Version of the pipe between mptune and mptune-worker; both must be the same.
inline constexpr int kProtocolVersion = 21;

// ---- from mptune to the worker: exactly one request, then the worker answers until Done or Failed and exits ----

/// Lists the built-in models, or describes the model of `setup`.
struct DescribeRequest {
  TrainingSetup setup;
  bool all_models = false;
};
/// Measures layers and links; writes the profile to `path` (a trace file without a trace).
struct MeasureRequest {
  TrainingSetup setup;
  std::string path;
  double budget_s = 60;
  bool channels_last = false;     ///< also measures in channels_last where the model has convolutions
  bool replaced_kernels = false;  ///< also measures with slow kernels replaced, where layers would take them
  std::vector<int> threads = {};  ///< also measures devices of several cores with these numbers of intra-op threads
  double started_s = 0;           ///< monotonic_seconds() from which these times count; 0: they count from where measuring begins
  double most_s = 0;              ///< time that the smallest micro-batches may take where it is longer than the budget; 0: any time
  std::string estimate = {};      ///< kind of GPU to estimate the costs for, in place of all measuring; "": none
};
/// Returns the seconds of the machine's monotonic clock, which all its processes share.
[[nodiscard]] double monotonic_seconds();

/// Runs a series of timed trials, uninstrumented.
struct SeriesRequest {
  TrainingSetup setup;
  Series series;
  double started_s = 0;  ///< monotonic_seconds() when the series began: its budget and StepTimed::started_s count from there
};
/// Records steps of a plan and writes the trace to `path`, with the profile of `profile_path` where given.
struct RecordRequest {
  TrainingSetup setup;
  Plan plan;
  int steps = 5;
  std::string path;
  std::string profile_path;
};
/// Trains: `steps` steps with the plan.
struct TrainRequest {
  TrainingSetup setup;
  Plan plan;
  int steps = 0;  ///< 0: until the 95 % interval of the step time is narrow, at most 50; with `checkpoint` those of earlier runs count
  std::string load;
  std::string save;
  std::string checkpoint;        ///< folder of checkpoints; "" for none. Training goes on from the latest one there
  int checkpoint_step = 0;       ///< steps of the checkpoint to go on from; 0: the latest
  std::string csv;               ///< StepLog to write; "" for none
  int every = 0;                 ///< steps between two checkpoints; 0: only one after the last step
  double clip_norm = 0;          ///< the most that the norm of all gradients may be; 0: any
  bool skip_non_finite = false;  ///< a step whose gradients are not all finite changes no parameter, instead of ending the training
  int epochs = 0;                ///< in place of `steps`: passes over the samples
  bool drop_last = false;        ///< an epoch's last step is left out where fewer samples than a batch are left
  std::string validation_data;   ///< file or folder with samples to evaluate after each epoch; "" for none
  double validation_share = 0;   ///< share of the samples that is kept apart for that instead
  std::string rate_schedule;     ///< in the form of parse_rate_schedule(); "": a constant learning rate
};
/// Reports what this machine has: LibTorch, devices, copies, clock.
struct DoctorRequest {
  TrainingSetup setup;  ///< devices and link only
};
/// Compares the model's pieces with the whole model, on the machine's cores whatever the setup's devices are.
struct CheckRequest {
  TrainingSetup setup;
  std::optional<Plan> plan;  ///< checked as well, and its micro-batches are those that are compared
  double budget_s = 0;       ///< comparisons that have not begun after this time are left out; 0: no limit
  double started_s = 0;      ///< see MeasureRequest
};
// With several ranks, the worker of rank 0 takes a request whose devices name ranks, and leaves it in the store for the workers of the
// others.

/// Runs the store where the ranks of torchrun's variables meet, says StoreOpen, and goes on until it is killed.
struct StoreRequest {
  TrainingSetup setup;  ///< empty
};
/// On a rank other than 0: waits for the request with this number and does its part of it, or waits for the end of requests.
struct ServeRequest {
  TrainingSetup setup;  ///< `rank_call` only
};
/// Tells the other ranks that there are no more requests, and how the command ended.
struct EndRanksRequest {
  TrainingSetup setup;  ///< empty
  int exit_code = 0;
};
using Request = std::variant<DescribeRequest, MeasureRequest, SeriesRequest, RecordRequest, TrainRequest, DoctorRequest, CheckRequest,
                             StoreRequest, ServeRequest, EndRanksRequest>;

// ---- from the worker ----

/// First message of every worker.
struct Hello {
  int protocol = kProtocolVersion;
  std::string version;
  std::string libtorch;
  std::string cuda;
};
struct Progress {
  std::string what;     ///< "layer costs"
  double fraction = 0;  ///< 0 to 1 of the request
};
/// What the user should know about the request's result.
struct Warned {
  std::string text;  ///< a clause
};
struct DescribedModel {
  std::string name;
  std::string parameters_text;  ///< what may follow the colon of the name
  std::string description;
  std::int64_t parameters = 0;
  std::vector<ProfileLayer> layers;
  std::string input;
  int batch = 0;
  Fingerprint fingerprint;
  bool convolutions = false;  ///< some layer has weights whose memory format matters
  std::string warning;        ///< what the user should know about the model's file, "" for nothing
};
struct Described {
  std::vector<DescribedModel> models;
};
/// A step begins. If the worker ends from here to the next StepStarted, this entry has caused it.
struct StepStarted {
  int entry = 0;  ///< index into Series::entries
  int round = 0;  ///< -1: the plan is built, or runs a warm-up step
};
/// One timed step is done.
struct StepTimed {
  int entry = 0;  ///< index into Series::entries
  int round = 0;
  int position = 0;
  double started_s = 0;  ///< since the start of the series
  double step_s = 0;
};
/// Rounds of the series were disturbed and are repeated.
struct RoundsDisturbed {
  DisturbedRounds rounds;
};
/// An entry is finished, with all its samples (Measured) or with the reason why it has none.
struct EntryFinished {
  int entry = 0;
  Outcome outcome;
};
/// Another rank's worker has ended. The entries that are not finished need a new worker on every rank.
struct RanksLost {};
struct Recorded {
  double step_off_s = 0;
  double step_on_s = 0;
  std::vector<std::int64_t> peak_bytes;
  Samples step_s;            ///< unrecorded steps
  std::string warning;       ///< what the recording lacks and why, "" for nothing
  double clock_error_s = 0;  ///< with several ranks: how far apart their clocks may be in the trace
};
/// One training step is done.
struct Trained {
  int step = 0;
  double loss = 0;
  double step_s = 0;
  int epoch = 0;
  int samples = 0;
  int steps = 0;             ///< of the whole training; 0: not known
  double learning_rate = 0;  ///< of this step
};
/// A pass over the samples is done.
struct EpochFinished {
  int epoch = 0;
  int step = 0;                           ///< the last one
  double loss = 0;                        ///< mean over its samples
  std::optional<double> validation_loss;  ///< nothing without samples for it
  std::optional<double> accuracy;         ///< share of them that are classified rightly; nothing unless the loss is a cross entropy
};
struct TrainingFinished {
  int first_step = 0;        ///< steps of earlier runs, by the checkpoint
  int skipped_steps = 0;     ///< TrainRequest::skip_non_finite
  std::string resumed_from;  ///< the checkpoint; "" for none
  std::string checkpoint;    ///< the last one written; "" for none
  Samples step_s;
  std::vector<double> loss;
  std::vector<EpochFinished> epochs;
  std::vector<std::int64_t> peak_bytes;
};
enum class FindingStatus { ok, warning, error };
/// Their names in messages and JSON.
inline constexpr std::array kFindingStatusNames = {"ok", "warning", "error"};
struct Finding {
  std::string name;
  FindingStatus status = FindingStatus::ok;
  std::string value;
  std::string remedy;
};
struct Findings {
  std::vector<Finding> findings;
};
struct Checked {
  CheckResult result;
};
/// Other ranks can reach the store.
struct StoreOpen {};
/// The request that was waited for has come, and is being worked on.
struct Serving {};
/// No more requests come; the command ended with this code.
struct NothingToServe {
  int exit_code = 0;
};
/// The first pass over all layers has been measured. This says what is known about a model that takes longer than the budget.
struct PassTimed {
  int samples = 0;
  double seconds = 0;  ///< forward and backward on the first device, with what happens once
};
/// The request is done; the worker exits 0.
struct Done {};
/// The request failed with an Error; the worker exits with its code. A plan that fails within a series is an EntryFinished instead.
struct Failed {
  std::string what;
  std::string where;
  std::string remedy;
  int exit_code = 1;
  std::optional<Outcome> outcome = {};  ///< outcome of the request's plan, where its failure is the reason
};
using Reply = std::variant<Hello, Progress, Warned, Described, StepStarted, StepTimed, RoundsDisturbed, EntryFinished, Recorded, Trained,
                           EpochFinished, TrainingFinished, Findings, Checked, RanksLost, StoreOpen, Serving, NothingToServe, PassTimed,
                           Done, Failed>;

/// Returns one line of JSON without the line break; `"type"` names the alternative. Doubles survive exactly.
[[nodiscard]] std::string encode(const Request& request);
[[nodiscard]] std::string encode(const Reply& reply);
/// Throw Error (internal) that names what is wrong with the line.
[[nodiscard]] Request decode_request(const std::string& line);
[[nodiscard]] Reply decode_reply(const std::string& line);

}  // namespace mptune::tuner
