// A plug-in for tests that fails as MPTUNE_HOSTILE_PLUGIN says: "KIND@PLACE:N" does KIND in the N-th call of PLACE in a process.
// KIND: throw, abort, exit, loop, segv, nan. PLACE: factory, forward, backward. Without the variable it is three linear layers.
#include <mptune/nn.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace {

namespace nn = torch::nn;

void loop() {
  volatile bool forever = true;
  while (forever) {
  }
}

/// Does what the variable says, or returns what the place's numbers are multiplied with.
double call(const std::string& place) {
  static std::atomic<int> calls{0};
  const char* variable = std::getenv("MPTUNE_HOSTILE_PLUGIN");
  const std::string text = variable == nullptr ? "" : variable;
  const auto at = text.find('@'), colon = text.find(':');
  if (at == std::string::npos || colon == std::string::npos || text.substr(at + 1, colon - at - 1) != place) return 1;
  if (++calls != std::atoi(text.c_str() + colon + 1)) return 1;
  const std::string kind = text.substr(0, at);
  if (kind == "throw") throw std::runtime_error("no weights \x1b[31m today\nand a second line");
  if (kind == "abort") std::abort();
  if (kind == "exit") std::exit(0);
  if (kind == "segv") std::raise(SIGSEGV);
  if (kind == "loop") loop();
  return kind == "nan" ? std::numeric_limits<double>::quiet_NaN() : 1;
}

struct Trap final : nn::Cloneable<Trap> {
  Trap() { reset(); }
  void reset() override { fc = register_module("fc", nn::Linear(32, 32)); }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::relu(fc(x)) * call("forward");
    if (y.requires_grad()) y.register_hook([](const at::Tensor& gradient) { return gradient * call("backward"); });
    return y;
  }
  nn::Linear fc{nullptr};
};

mptune::Model hostile() {
  call("factory");
  std::vector<mptune::ModelLayer> layers;
  for (const char* name : {"one", "two", "three"})
    layers.push_back(
        {name, {name}, mptune::layer("Trap", std::make_shared<Trap>(), name, [](nn::Module& module, const mptune::Tensors& inputs) {
           return mptune::Tensors{static_cast<Trap&>(module).forward(inputs.at(0))};
         })});
  mptune::SampleDescription sample;
  sample.inputs = {{.shape = {32}}};
  return {"hostile", std::move(layers), mptune::Loss::mean_square(), sample, 8};
}

}  // namespace

MPTUNE_MODEL(hostile);
