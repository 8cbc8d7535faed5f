// Launches of the Hopper kernels without Python: an operator's call at a problem that `keep` was told of
// allocates its outputs, fills in addresses and launches. Any other call goes to the Python operator
// of the same name with `unprepared_` before it, which then tells.

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t MAP_BYTES = 128, ARGUMENT_BYTES = 2048;
constexpr int STARTS_EARLY = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

// In the order of `FUNCTIONS` in launcher.py.
struct Functions {
  int (*launch)(const void* configuration, void* function, void** arguments, void** extra);
  int (*replace_address)(void* map, void* address);
  int (*current_context)(void** context);
  int (*is_capturing)(void* stream, int* status);
  int (*current_stream)(int32_t device, void** stream);
} functions;

struct Attribute {  // CUlaunchAttribute
  int64_t id;
  int value;
  char rest[60];
};

struct Configuration {  // CUlaunchConfig
  unsigned blocks[3], threads[3], shared_bytes;
  void* stream;
  Attribute* attributes;
  unsigned number_of_attributes;
};

struct Place {  // of memory: which tensor's, and how many bytes from its beginning
  int64_t tensor, offset;
};

struct Kernel {
  int64_t function, programs, threads, shared_bytes, starts_early;
};

struct Run {  // kernels that share an argument
  std::vector<int64_t> argument;
  int64_t maps, pointers_at;
  std::vector<Place> places;
  std::vector<Kernel> kernels;
};

struct Output {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
};

struct Pass {
  int64_t context, queued, floats;
  std::vector<Output> outputs;
  std::vector<Run> runs;
};

using Words = c10::SmallVector<int64_t, 72>;

std::shared_mutex mutex;
std::map<Words, std::unique_ptr<const Pass>> passes;
std::map<std::pair<int64_t, void*>, int64_t> counters;  // by device and stream

const Pass* find_pass(const Words& key) {
  std::shared_lock lock(mutex);
  auto found = passes.find(key);
  return found == passes.end() ? nullptr : found->second.get();
}

int64_t find_counter(int64_t device, void* stream) {  // 0 where there is none, or not this one
  int capturing = 0;
  if (functions.is_capturing(stream, &capturing) || capturing) return 0;
  std::shared_lock lock(mutex);
  auto found = counters.find({device, stream});
  return found == counters.end() ? 0 : found->second;
}

void check(int status, const char* what) {
  TORCH_CHECK(status == 0, "CUDA error ", status, ": ", what);
}

void launch(const Run& run, const Words& addresses, void* stream) {
  alignas(64) char argument[ARGUMENT_BYTES];
  std::memcpy(argument, run.argument.data(), run.argument.size() * sizeof(int64_t));
  for (int64_t i = 0; i < static_cast<int64_t>(run.places.size()); ++i) {
    const Place& place = run.places[i];
    int64_t address = addresses[place.tensor] + place.offset;
    if (i < run.maps) {
      check(functions.replace_address(argument + i * MAP_BYTES, reinterpret_cast<void*>(address)),
            "a tensor's address");
    } else {
      std::memcpy(argument + run.pointers_at + (i - run.maps) * 8, &address, 8);
    }
  }
  void* arguments[] = {argument};
  for (const Kernel& kernel : run.kernels) {
    Attribute attribute{STARTS_EARLY, static_cast<int>(kernel.starts_early), {}};
    Configuration configuration{{static_cast<unsigned>(kernel.programs), 1, 1},
                                {static_cast<unsigned>(kernel.threads), 1, 1},
                                static_cast<unsigned>(kernel.shared_bytes),
                                stream,
                                &attribute,
                                1};
    void* function = reinterpret_cast<void*>(kernel.function);
    check(functions.launch(&configuration, function, arguments, nullptr), "launching a kernel");
  }
}

class Replay : public c10::OperatorKernel {
 public:
  Replay(int64_t number, const std::string& name)
      : number_(number),
        unprepared_(c10::Dispatcher::singleton().findSchemaOrThrow(
            ("flashlab::unprepared_" + name).c_str(), "")) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    if (!replay(op.schema().arguments().size(), *stack)) unprepared_.callBoxed(stack);
  }

 private:
  // Whether the pass was prepared, and its outputs are on the stack in place of what was given.
  bool replay(size_t given, torch::jit::Stack& stack) const {
    Words key{number_}, addresses;
    const at::Tensor* first = nullptr;
    int64_t misaligned = 0;
    for (const c10::IValue& value : torch::jit::last(stack, given)) {
      if (value.isTensor()) {
        const at::Tensor& x = value.toTensor();
        if (!first) first = &x;
        key.push_back(x.device().index());
        key.push_back(static_cast<int64_t>(x.scalar_type()));
        key.append(x.sizes().begin(), x.sizes().end());
        key.append(x.strides().begin(), x.strides().end());
        addresses.push_back(reinterpret_cast<int64_t>(x.const_data_ptr()));
        misaligned |= addresses.back() % 16;
      } else {
        key.push_back(value.toBool());
      }
    }
    const Pass* pass = misaligned ? nullptr : find_pass(key);
    void *context = nullptr, *stream = nullptr;
    if (!pass || functions.current_context(&context) ||
        reinterpret_cast<int64_t>(context) != pass->context) {
      return false;
    }
    int64_t device = first->device().index();
    check(functions.current_stream(device, &stream), "the current stream");
    int64_t counter = pass->queued ? find_counter(device, stream) : 0;
    if (pass->queued && !counter) return false;

    c10::SmallVector<at::Tensor, 3> outputs;
    for (const Output& output : pass->outputs) {
      outputs.push_back(at::empty(output.sizes, first->options().dtype(output.dtype)));
      addresses.push_back(reinterpret_cast<int64_t>(outputs.back().data_ptr()));
    }
    at::Tensor memory;  // named until all is launched, or it might be another's
    if (pass->floats) memory = at::empty({pass->floats}, first->options().dtype(at::kFloat));
    addresses.push_back(pass->floats ? reinterpret_cast<int64_t>(memory.data_ptr()) : 0);
    addresses.push_back(counter);
    for (const Run& run : pass->runs) launch(run, addresses, stream);
    torch::jit::drop(stack, given);
    for (at::Tensor& output : outputs) stack.emplace_back(std::move(output));
    return true;
  }

  int64_t number_;
  c10::OperatorHandle unprepared_;
};

}  // namespace

extern "C" {

// Let operators run here, in place of those that did, under a dispatch key; `given` are what to call.
void attach(const char* const* names, int64_t number, const char* key, const Functions* given) {
  static torch::Library* library = nullptr;  // never destroyed when the process ends
  delete library;
  passes.clear(), counters.clear();
  functions = *given;
  library = new torch::Library(torch::Library::IMPL, "flashlab", c10::parseDispatchKey(key), __FILE__,
                               __LINE__);
  for (int64_t i = 0; i < number; ++i) {
    library->impl(names[i], torch::CppFunction::makeFromBoxedFunctor(
                                std::make_unique<Replay>(i, names[i])));
  }
}

// How a pass runs, in words: those of `described` in launcher.py.
void keep(const int64_t* key, int64_t key_words, const int64_t* words) {
  auto next = [&] { return *words++; };
  auto several = [&](int64_t number) {
    std::vector<int64_t> found(words, words + number);
    words += number;
    return found;
  };
  auto pass = std::make_unique<Pass>();
  pass->context = next(), pass->queued = next(), pass->floats = next();
  pass->outputs.resize(next());
  for (Output& output : pass->outputs) {
    output.dtype = static_cast<at::ScalarType>(next());
    output.sizes = several(next());
  }
  pass->runs.resize(next());
  for (Run& run : pass->runs) {
    run.argument = several(next());
    run.maps = next(), run.pointers_at = next();
    run.places.resize(next());
    for (Place& place : run.places) place.tensor = next(), place.offset = next();
    run.kernels.resize(next());
    for (Kernel& kernel : run.kernels) {
      kernel.function = next(), kernel.programs = next(), kernel.threads = next();
      kernel.shared_bytes = next(), kernel.starts_early = next();
    }
  }
  std::unique_lock lock(mutex);
  passes.emplace(Words(key, key + key_words), std::move(pass));
}

// Where the counter of tiles of a stream is.
void count(int64_t device, void* stream, int64_t counter) {
  std::unique_lock lock(mutex);
  counters[{device, stream}] = counter;
}
}
