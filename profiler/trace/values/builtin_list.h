#pragma once

#include <array>
#include <string>
#include <vector>

namespace mptune::profiler {

/// What is known about a built-in model without LibTorch, which makes the model.
struct BuiltinText {
  const char* name;
  const char* parameters;  ///< what may follow the colon, "" for none
  const char* description;
};

/// All built-in models, in the order in which they are listed.
inline constexpr std::array kBuiltinTexts{
    BuiltinText{"mlp", "layers=2,width=10",
                "linear layers with ReLU between them; two of them are the toy of PyTorch's model-parallel tutorial"},
    BuiltinText{"resnet18", "", "torchvision's ResNet-18, a layer per block"},
    BuiltinText{"resnet50", "", "torchvision's ResNet-50, a layer per block"},
    BuiltinText{"transformer", "d=256,layers=8,heads=8,seq=64,vocab=1000", "GPT-style language model, a layer per block"},
    BuiltinText{"vgg16", "width=64,hidden=4096,classes=1000,dropout=50",
                "torchvision's VGG-16 with dropout (percent), a layer per convolution"},
    BuiltinText{"bert", "d=768,layers=12,heads=12,seq=128,vocab=30522,classes=2,dropout=10",
                "BERT encoder with a classifier; padding masks cross the cuts"},
    BuiltinText{"unet", "base=64,depth=4,classes=2", "U-Net for segmentation; its skips are carried along the chain"},
    BuiltinText{"late-fusion", "width=64,classes=1000", "two ResNet-18 branches, one image each, joined by a head"},
    BuiltinText{"encoder-decoder-classifier", "width=32,hidden=128,classes=10",
                "convolutional autoencoder whose code is classified too: three parts, two losses"},
};

[[nodiscard]] inline std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  for (const BuiltinText& text : kBuiltinTexts) names.emplace_back(text.name);
  return names;
}

}  // namespace mptune::profiler
