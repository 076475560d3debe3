#include "profiler/models/builtin_models.h"

#include "profiler/base/error.h"
#include "profiler/models/builtin.h"

namespace mptune {
namespace {

using Factory = Model (*)(const std::string& parameters, const std::string& input, profiler::Seed seed);

struct Builtin {
  BuiltinModel about;
  Factory make;
};

const std::vector<Builtin>& table() {
  static const std::vector<Builtin> all = {
      {{"mlp", "layers=2,width=10", "linear layers with ReLU between them; two of them are the toy of PyTorch's model-parallel tutorial"},
       profiler::make_mlp},
      {{"resnet18", "", "torchvision's ResNet-18, a layer per block"}, profiler::make_resnet18},
      {{"resnet50", "", "torchvision's ResNet-50, a layer per block"}, profiler::make_resnet50},
      {{"transformer", "d=256,layers=8,heads=8,seq=64,vocab=1000", "GPT-style language model, a layer per block"},
       profiler::make_transformer},
      {{"vgg16", "width=64,hidden=4096,classes=1000,dropout=50", "torchvision's VGG-16 with dropout (percent), a layer per convolution"},
       profiler::make_vgg16},
      {{"bert", "d=768,layers=12,heads=12,seq=128,vocab=30522,classes=2,dropout=10",
        "BERT encoder with a classifier; padding masks cross the cuts"},
       profiler::make_bert},
      {{"unet", "base=64,depth=4,classes=2", "U-Net for segmentation; its skips are carried along the chain"}, profiler::make_unet},
      {{"late-fusion", "width=64,classes=1000", "two ResNet-18 branches, one image each, joined by a head"}, profiler::make_late_fusion},
      {{"encoder-decoder-classifier", "width=32,hidden=128,classes=10",
        "convolutional autoencoder whose code is classified too: three parts, two losses"},
       profiler::make_encoder_decoder_classifier},
  };
  return all;
}

}  // namespace

const std::vector<BuiltinModel>& builtin_models() {
  static const std::vector<BuiltinModel> models = [] {
    std::vector<BuiltinModel> result;
    for (const auto& builtin : table()) result.push_back(builtin.about);
    return result;
  }();
  return models;
}

Model load_builtin(const std::string& name, const std::string& parameters, const std::string& input, profiler::Seed seed) {
  std::string known;
  for (const auto& builtin : table()) {
    if (builtin.about.name == name) return builtin.make(parameters, input, seed);
    known += (known.empty() ? "" : ", ") + builtin.about.name;
  }
  throw Error(
      "unknown model '" + name + "'", "MODEL",
      "built-in models are " + known + "; your own is an exported program (net.pt2), a plug-in (net.so) or a TorchScript file (net.pt)");
}

}  // namespace mptune
