// Trains a network on digits twice, in an ordinary loop and in a pipeline with a plan, on the same data in the same order. Both reach the
// same losses. Then saves the trained state and continues with it in a new pipeline.
#include <mptune/mptune.h>
#include <mptune/nn.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "task.h"

namespace {

constexpr int kBatch = 64;
constexpr int kSteps = 300;
// Gradients summed over micro-batches round differently from those of the whole batch, and training amplifies the difference.
constexpr double kAgreement = 1e-3;

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

bool train_both(torch::nn::Sequential& net, mptune::Pipeline& pipeline) {
  const auto options = torch::optim::AdamOptions(4e-3);
  torch::optim::Adam optimizer(net->parameters(), options);
  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers;  // one per stage
  for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage)
    optimizers.push_back(std::make_unique<torch::optim::Adam>(pipeline.parameters(stage), options));
  double first = 0, last = 0, furthest = 0;
  std::printf("%6s  %10s  %10s\n", "step", "ordinary", "pipeline");
  for (int step = 0; step < kSteps; ++step) {
    const mptune::Batch batch = draw_digits(pipeline.plan().global_batch_size());
    const double ordinary = ordinary_step(net, optimizer, batch);
    last = pipeline.step(batch.inputs, batch.target).loss;
    pipeline.on_stages([&](int stage) { optimizers[static_cast<std::size_t>(stage)]->step(); });
    if (step == 0) first = last;
    furthest = std::fmax(furthest, std::fabs(ordinary - last));
    if (step % 50 == 0 || step + 1 == kSteps) std::printf("%6d  %10.6f  %10.6f\n", step, ordinary, last);
  }
  std::printf("largest difference of the losses: %.1e\n", furthest);
  const bool agree = furthest <= kAgreement, learned = last < first / 4;
  std::printf("the losses %s; the net has %slearned\n", agree ? "agree" : "DIFFER", learned ? "" : "NOT ");
  return agree && learned;
}

// The file holds a state dict, which Python's torch.load reads too. A pipeline that loads it continues where the first one ended.
bool save_and_load(mptune::Pipeline& pipeline, const mptune::PlanFile& plan, const std::string& path) {
  torch::nn::Sequential net = make_net();
  mptune::Model model = model_of(net);  // shares its tensors with the net
  pipeline.copy_state_to(model);
  mptune::save_state(model, path);
  torch::nn::Sequential fresh = make_net();
  mptune::Model loaded = model_of(fresh);
  mptune::load_state(loaded, path);
  const mptune::Batch unseen = draw_digits(pipeline.plan().global_batch_size());
  const double before = pipeline.step(unseen.inputs, unseen.target).loss;
  const double after = mptune::Pipeline(std::move(loaded), plan).step(unseen.inputs, unseen.target).loss;
  const double right = fresh->forward(unseen.inputs[0]).argmax(1).eq(unseen.target).to(at::kDouble).mean().item<double>();
  std::printf("%s holds the state: loss on unseen digits %.6f, loaded %.6f, %.0f %% right\n", path.c_str(), before, after, 100 * right);
  return before == after;
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
  return train_both(net, pipeline) && save_and_load(pipeline, plan, "digits.pt") ? 0 : 1;
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
    std::fprintf(stderr, "%s: %s; %s\n", error.what(), error.where().c_str(), error.remedy().c_str());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
