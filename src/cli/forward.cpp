// makar forward: a model's outputs for given input tensors, to compare with another framework.
#include "models/forward.h"

#include <fmt/format.h>

#include "cli/model_options.h"
#include "cli/model_path.h"
#include "cli/run.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

namespace makar {

int run_forward(const std::vector<std::string>& arguments) {
  std::string model, input, output, device_name = "cpu";
  bool attentions = false;
  int64_t threads = 0;
  Options options("forward",
                  "Run a model on the in.* tensors of a safetensors file and write its out.* tensors.",
                  "makar forward MODEL --input in.safetensors --output out.safetensors");
  declare_model(options, model, "MODEL");
  options.group("Input and output");
  options
      .add("-i --input", &input,
           "safetensors file with in.input_ids, in.attention_mask, in.pixel_values, ...", "FILE")
      .required = true;
  options
      .add("-o --output", &output, "file for out.logits (or the head's own names) and out.hidden_states.*",
           "FILE")
      .required = true;
  options.add("--attentions", &attentions, "also write the attention maps");
  declare_threads(options, threads);
  declare_device(options, device_name);
  if (const auto code = parse_or_exit(options, arguments)) return *code;

  const auto compute = open_device_option(device_name, threads);
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto loaded = load_model(resolve_model(model), {.exact = true});
  if (!loaded.ok()) return report(loaded.error());
  const auto file = Safetensors::open(input);
  if (!file.ok()) return report(file.error());
  std::map<std::string, Tensor> in;
  for (const auto& name : (*file)->names()) {
    auto tensor = (*file)->tensor(name);
    if (!tensor.ok()) return report(tensor.error());
    if (name.starts_with("in.")) in[name.substr(3)] = *tensor;
  }
  loaded->model->parameters().to(device.memory());
  const auto out = forward_tensors(*loaded->model, in, {device, attentions}, input);
  if (!out.ok()) return report(out.error());
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : *out) {
    tensors.push_back({"out." + name, tensor});
    fmt::print("out.{} {}\n", name, tensor.shape().text());
  }
  const Status written = write_safetensors(output, tensors);
  return written.ok() ? 0 : report(written.error());
}

}  // namespace makar
