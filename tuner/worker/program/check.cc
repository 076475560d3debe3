#include "tuner/check/check.h"
#include "profiler/base/activity.h"

#include <algorithm>
#include <functional>

#include "profiler/base/error.h"
#include "profiler/model/exported/archive.h"
#include "profiler/model/loading/load_model.h"
#include "tuner/worker/program/requests.h"

namespace mptune::tuner {
namespace {

constexpr int kSamples = 4;  // enough for two micro-batches in which batch norms see two samples each

int samples_to_check(const CheckRequest& request, const Model& model) {
  if (request.plan) return request.plan->global_batch_size();
  if (request.setup.batch > 0) return request.setup.batch;
  const int least = model.samples().least;
  return std::max(std::min(kSamples, model.default_batch()), least > 1 ? 2 * least : 1);
}

Batch batch_to_check(const CheckRequest& request, const Model& model) {
  const int samples = samples_to_check(request, model);
  if (request.setup.data.empty()) return synthetic_batch(model.sample(), samples, request.setup.seed);
  const Batch given = samples_for(request.setup, model);
  const bool asked = request.plan || request.setup.batch > 0;
  const std::int64_t held = given.inputs.at(0).size(0);
  if (asked && held < samples)
    throw Error("the file holds " + std::to_string(held) + " samples, " + std::to_string(samples) + " are asked for", request.setup.data,
                "give --batch " + std::to_string(held));
  return samples_of(given, 0, std::min<std::int64_t>(held, samples));
}

/// Returns the samples that the model takes at once: the first ones of the batch.
Batch taken_at_once(const Batch& batch, const SampleRange& range) {
  const std::int64_t samples = batch.inputs.at(0).size(0);
  return range.most == 0 || samples <= range.most ? batch : samples_of(batch, 0, range.most);
}

std::vector<int> sizes_to_check(const CheckRequest& request, int samples, const SampleRange& range) {
  if (request.plan && request.plan->global_batch_size() == samples) return request.plan->microbatch_sizes;
  if (samples < 2 || samples / 2 < range.least) return {samples};
  return {samples - samples / 2, samples / 2};
}

bool is_program(const std::string& model) {
  const ModelText text = parse_model_text(model);
  return text.is_file && profiler::is_exported_archive(text.name);
}

/// Returns the setup's model, never a sleeping one, which computes nothing that could be compared.
Model real_model(const TrainingSetup& setup) {
  const Activity activity("loading", setup.model, kPatienceOfLoading);
  Model model = load_model(setup.model, setup.input, setup.seed, source_of(setup)).model;
  model.compute_in(setup.precision);
  return model;
}

/// The parts of a check in their order, within its time.
class Parts {
 public:
  Parts(const CheckRequest& request, const Replies& reply, int count)
      : budget_s_(request.budget_s),
        started_s_(request.started_s > 0 ? request.started_s : monotonic_seconds()),
        reply_(reply),
        count_(count) {}

  /// Adds the parts that `make` returns, called `names`; once the budget is spent, adds them as left out.
  void add(const std::vector<std::string>& names, const std::string& what, const std::function<std::vector<CheckPart>()>& make) {
    reply_(Progress{what, static_cast<double>(done_++) / count_});
    if (has_time()) {
      for (CheckPart& part : make()) result.parts.push_back(std::move(part));
      return;
    }
    for (const std::string& name : names) {
      CheckPart& part = result.parts.emplace_back();
      part.name = name;
      part.compared = what;
      part.left_out = "the time for it was spent";
      part.no_time = true;
    }
  }

  [[nodiscard]] bool has_time() const { return budget_s_ <= 0 || monotonic_seconds() - started_s_ < budget_s_; }

  CheckResult result;

 private:
  double budget_s_;
  double started_s_;
  const Replies& reply_;
  int count_;
  int done_ = 0;
};

}  // namespace

void check(const CheckRequest& request, const Replies& reply) {
  constexpr int kParts = 5;
  const TrainingSetup& setup = request.setup;
  const Model model = real_model(setup);
  const Batch batch = batch_to_check(request, model);
  const Batch at_once = taken_at_once(batch, model.samples());
  const auto samples = static_cast<int>(at_once.inputs.at(0).size(0));
  const std::vector<int> sizes = sizes_to_check(request, samples, model.samples());
  ModelCheck checked(model, at_once, setup.seed);
  Parts parts(request, reply, kParts);
  parts.result.samples = samples;
  parts.result.microbatch_sizes = sizes;
  if (is_program(setup.model))
    parts.add({"reference"}, "the reference of the export",
              [&] { return std::vector{check_reference(parse_model_text(setup.model).name)}; });
  parts.add({"again", "pieces"}, "every layer as a piece", [&] { return checked.pieces(); });
  parts.add({"microbatches"}, "micro-batches", [&] { return std::vector{checked.microbatches(sizes, [&] { return parts.has_time(); })}; });
  if (request.plan) parts.add({"plan"}, "the plan", [&] { return std::vector{ModelCheck(model, batch, setup.seed).plan(*request.plan)}; });
  if (setup.precision != Precision::float32) parts.add({"precision"}, "the precision", [&] { return std::vector{checked.precision()}; });
  reply(Checked{parts.result});
}

}  // namespace mptune::tuner
