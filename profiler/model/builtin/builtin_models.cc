#include "profiler/model/builtin/builtin_models.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "profiler/model/builtin/builtin.h"
#include "profiler/trace/values/builtin_list.h"

namespace mptune {
namespace {

struct Builtin {
  std::string_view name;
  Model (*make)(const std::string& parameters, const std::string& input, profiler::Seed seed);
};

constexpr std::array kBuiltins{
    Builtin{"mlp", profiler::make_mlp},
    Builtin{"resnet18", profiler::make_resnet18},
    Builtin{"resnet50", profiler::make_resnet50},
    Builtin{"transformer", profiler::make_transformer},
    Builtin{"vgg16", profiler::make_vgg16},
    Builtin{"bert", profiler::make_bert},
    Builtin{"unet", profiler::make_unet},
    Builtin{"late-fusion", profiler::make_late_fusion},
    Builtin{"encoder-decoder-classifier", profiler::make_encoder_decoder_classifier},
};
static_assert(std::ranges::equal(kBuiltins, profiler::kBuiltinTexts, {}, &Builtin::name, &profiler::BuiltinText::name),
              "a model is listed and made, or neither");

}  // namespace

const std::vector<BuiltinModel>& builtin_models() {
  static const std::vector<BuiltinModel> models = [] {
    std::vector<BuiltinModel> result;
    for (const profiler::BuiltinText& text : profiler::kBuiltinTexts) result.push_back({text.name, text.parameters, text.description});
    return result;
  }();
  return models;
}

Model load_builtin(const std::string& name, const std::string& parameters, const std::string& input, profiler::Seed seed) {
  const auto found = std::ranges::find(kBuiltins, name, &Builtin::name);
  if (found != kBuiltins.end()) return found->make(parameters, input, seed);
  const std::vector<std::string> names = profiler::builtin_names();
  throw Error("unknown model '" + name + "'", "MODEL",
              did_you_mean(name, names,
                           "built-in models are " + join(names, ", ") +
                               "; your own is an exported program (net.pt2), a plug-in (net.so) or a TorchScript file (net.pt)"));
}

}  // namespace mptune
