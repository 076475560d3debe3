// Trains a classifier of two moons twice, by an ordinary loop and by a pipeline with a plan, and checks that both learn the same.
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

namespace {

constexpr int kBatch = 128;
constexpr int kSteps = 300;
// Sums of micro-batches round differently from one sum over the batch.
constexpr double kAgreement = 1e-3;

torch::nn::Sequential make_net() {
  using torch::nn::Linear, torch::nn::Tanh;
  torch::manual_seed(1);
  return torch::nn::Sequential({{"fc1", Linear(2, 32)},
                                {"act1", Tanh()},
                                {"fc2", Linear(32, 32)},
                                {"act2", Tanh()},
                                {"fc3", Linear(32, 32)},
                                {"act3", Tanh()},
                                {"out", Linear(32, 2)}});
}

// Two half circles that reach into each other, with noise.
mptune::Batch two_moons(int samples) {
  const at::Tensor angle = at::rand({samples}) * M_PI;
  const at::Tensor label = at::randint(2, {samples}, at::kLong);
  const at::Tensor x = at::where(label == 0, at::cos(angle), 1 - at::cos(angle));
  const at::Tensor y = at::where(label == 0, at::sin(angle), 0.5 - at::sin(angle));
  return {at::stack({x, y}, 1) + 0.1 * at::randn({samples, 2}), label};
}

// Two stages on two devices of this machine, or one where there is no second.
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
  const at::Tensor loss = torch::nn::functional::cross_entropy(net->forward(batch.input), batch.target);
  loss.backward();
  optimizer.step();
  return loss.item<double>();
}

bool train_both(torch::nn::Sequential& net, mptune::Pipeline& pipeline) {
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD optimizer(net->parameters(), options);
  std::vector<std::unique_ptr<torch::optim::SGD>> optimizers;  // one per stage
  for (int stage = 0; stage < pipeline.plan().num_stages(); ++stage)
    optimizers.push_back(std::make_unique<torch::optim::SGD>(pipeline.parameters(stage), options));

  double first = 0, last = 0, furthest = 0;
  std::printf("%6s  %10s  %10s\n", "step", "ordinary", "pipeline");
  for (int step = 0; step < kSteps; ++step) {
    const mptune::Batch batch = two_moons(pipeline.plan().global_batch_size());
    const double ordinary = ordinary_step(net, optimizer, batch);
    last = pipeline.step(batch.input, batch.target).loss;
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

int run(const std::string& plan_path, const std::string& write_path) {
  mptune::prepare_gpus();  // before all else of LibTorch's; nothing where there is none
  torch::nn::Sequential net = make_net();
  mptune::Model model = mptune::from_sequential(net, mptune::Loss::cross_entropy());
  const char* instead = std::getenv("MPTUNE_PLAN");  // load_plan takes it before the path
  const bool given = !plan_path.empty() || (instead != nullptr && *instead != '\0');
  const mptune::PlanFile plan = given ? mptune::load_plan(plan_path) : make_plan_for(model);
  if (!write_path.empty()) mptune::save_plan_file(plan, write_path, false);

  mptune::Pipeline pipeline(std::move(model), plan);  // checks the fingerprint, copies the stages to their devices
  std::printf("%s\n", mptune::describe(pipeline.plan()).c_str());
  return train_both(net, pipeline) ? 0 : 1;
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
