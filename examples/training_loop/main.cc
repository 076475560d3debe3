// Trains a network on digits twice, in an ordinary loop and in a pipeline with a plan, on the same data in the same order. Both reach the
// same losses. The pipeline leaves a checkpoint in the middle, from which another one goes on under another plan and ends with the same
// loss. At last the trained state is saved and loaded.
#include <mptune/mptune.h>
#include <mptune/nn.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "task.h"

namespace {

constexpr int kBatch = 256;
constexpr int kSteps = 300;
constexpr int kTest = 2'000;       // unseen digits
constexpr double kLearned = 0.95;  // share of them
// Gradients summed over micro-batches round differently from those of the whole batch, and training amplifies the difference.
constexpr double kAgreement = 1e-3;

const torch::optim::AdamOptions kAdam(4e-3);
const std::string kCheckpoints = "digits.checkpoints";

mptune::Model model_of(const torch::nn::Sequential& net) {
  return mptune::from_sequential(net, mptune::Loss::cross_entropy());
}

// Two stages on two devices of this machine; one stage if it has one device.
mptune::PlanFile make_plan_for(const mptune::Model& model) {
  mptune::PlanOptions options;
  for (const auto& device : mptune::parse_devices("auto"))
    if (options.devices.size() < 2) options.devices.push_back(device.name);
  options.batch = kBatch;
  options.layers = model.size();
  options.microbatches = 4;
  return mptune::plan_file_of(model, mptune::make_plan(options), std::chrono::system_clock::now());
}

double ordinary_step(torch::nn::Sequential& net, torch::optim::Optimizer& optimizer, const mptune::Batch& batch) {
  optimizer.zero_grad();
  const at::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.inputs[0]), batch.target);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

// A pipeline with an optimizer per stage.
struct Training {
  explicit Training(mptune::Pipeline& the_pipeline) : pipeline(the_pipeline) {
    for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage) {
      optimizers.push_back(std::make_unique<torch::optim::Adam>(pipeline.parameters(stage), kAdam));
      all.push_back(optimizers.back().get());
    }
  }
  double step(const mptune::Batch& batch) {
    const double loss = pipeline.step(batch.inputs, batch.target).loss;
    pipeline.on_stages([&](int stage) { optimizers[static_cast<std::size_t>(stage)]->step(); });
    return loss;
  }
  mptune::Pipeline& pipeline;
  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers;
  mptune::Optimizers all;
};

mptune::CheckpointInfo about(const mptune::Pipeline& pipeline) {
  return {"digits", "", "adam", 0, pipeline.plan().global_batch_size()};
}

// Returns the pipeline's last loss; the checkpoint is from the middle.
std::optional<double> train_both(torch::nn::Sequential& net, mptune::Pipeline& pipeline, const std::vector<mptune::Batch>& batches) {
  torch::optim::Adam optimizer(net->parameters(), kAdam);
  Training training(pipeline);
  double first = 0, last = 0, furthest = 0;
  std::printf("%6s  %10s  %10s\n", "step", "ordinary", "pipeline");
  for (int step = 0; step < kSteps; ++step) {
    const mptune::Batch& batch = batches[static_cast<std::size_t>(step)];
    const double ordinary = ordinary_step(net, optimizer, batch);
    last = training.step(batch);
    if (step == 0) first = last;
    furthest = std::fmax(furthest, std::fabs(ordinary - last));
    if (step % 100 == 0 || step + 1 == kSteps) std::printf("%6d  %10.6f  %10.6f\n", step, ordinary, last);
    if (step + 1 == kSteps / 2) mptune::save_checkpoint(kCheckpoints, about(pipeline), mptune::training_state(pipeline, training.all));
  }
  std::printf("largest difference of the losses: %.1e\n", furthest);
  const bool agree = furthest <= kAgreement, learned = last < first / 4;
  std::printf("the losses %s; the net has %slearned\n", agree ? "agree" : "DIFFER", learned ? "" : "NOT ");
  return agree && learned ? std::optional(last) : std::nullopt;
}

// What a run does that was killed: it goes on from the checkpoint, here on one device. Equal micro-batches give equal losses.
bool go_on(const mptune::Plan& before, const std::vector<mptune::Batch>& batches, double expected) {
  mptune::PlanOptions options;
  options.devices = {before.devices.front()};
  options.batch = kBatch;
  torch::nn::Sequential fresh = make_net();
  mptune::Model model = model_of(fresh);
  options.layers = model.size();
  options.microbatches = before.num_microbatches();
  options.recompute = "all";
  options.schedule = "gpipe";
  mptune::Pipeline pipeline(std::move(model), mptune::make_plan(options));
  Training training(pipeline);
  mptune::set_training_state(pipeline, training.all, mptune::load_checkpoint(mptune::latest_checkpoint(kCheckpoints)).state);
  const std::int64_t resumed = pipeline.steps();
  double last = 0;
  for (std::size_t step = static_cast<std::size_t>(resumed); step < batches.size(); ++step) last = training.step(batches[step]);
  std::printf("from step %lld on with \"%s\": last loss %.6f, %s\n", static_cast<long long>(resumed),
              mptune::describe(pipeline.plan()).c_str(), last, last == expected ? "the same" : "ANOTHER");
  return last == expected;
}

double share_right(torch::nn::Sequential& net, const mptune::Batch& digits) {
  return net->forward(digits.inputs[0]).argmax(1).eq(digits.target).to(at::kDouble).mean().item<double>();
}

// The file holds a state dict, which Python's torch.load reads too.
bool save_and_load(torch::nn::Sequential& ordinary, mptune::Pipeline& pipeline, const std::string& path) {
  torch::nn::Sequential net = make_net();
  mptune::Model model = model_of(net);  // shares its tensors with the net
  pipeline.copy_state_to(model);
  mptune::save_state(model, path);
  torch::nn::Sequential fresh = make_net();
  mptune::Model loaded = model_of(fresh);
  mptune::load_state(loaded, path);
  const mptune::Batch unseen = draw_digits(kTest);
  const double of_loop = share_right(ordinary, unseen), of_pipeline = share_right(fresh, unseen);
  std::printf("of %d unseen digits the loop's net knows %.1f %%, the pipeline's %.1f %% (%s)\n", kTest, 100 * of_loop, 100 * of_pipeline,
              path.c_str());
  return of_loop >= kLearned && of_pipeline >= kLearned;
}

int run(const std::string& plan_path, const std::string& write_path) {
  mptune::prepare_gpus();  // before LibTorch is used; does nothing without a GPU
  torch::nn::Sequential net = make_net();
  mptune::Model model = model_of(net);
  const char* instead = std::getenv("MPTUNE_PLAN");  // load_plan uses it instead of the path
  const bool given = !plan_path.empty() || (instead != nullptr && *instead != '\0');
  const mptune::PlanFile plan = given ? mptune::load_plan(plan_path) : make_plan_for(model);
  if (!write_path.empty()) mptune::save_plan_file(plan, write_path, false);

  mptune::Pipeline pipeline(std::move(model), plan);  // checks the fingerprint, copies the stages to their devices
  std::printf("%s\n", mptune::describe(pipeline.plan()).c_str());
  std::vector<mptune::Batch> batches;
  for (int step = 0; step < kSteps; ++step) batches.push_back(draw_digits(kBatch));
  std::filesystem::remove_all(kCheckpoints);
  const std::optional<double> loss = train_both(net, pipeline, batches);
  return loss && go_on(pipeline.plan(), batches, *loss) && save_and_load(net, pipeline, "digits.pt") ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool write = arguments.size() == 2 && arguments[0] == "--write";
  if (!write && (arguments.size() > 1 || (arguments.size() == 1 && arguments[0].starts_with("-")))) {
    std::fprintf(stderr, "usage: %s [PLAN_FILE | --write PLAN_FILE]\n", argv[0]);
    return 2;
  }
  try {
    return run(!write && !arguments.empty() ? arguments[0] : "", write ? arguments[1] : "");
  } catch (const mptune::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
