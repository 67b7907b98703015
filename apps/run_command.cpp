#include <new>
#include <stdexcept>

#include "activity.h"
#include "command.h"
#include "core/out_of_memory.h"

namespace topomask::apps {
namespace {

[[noreturn]] void fail_for_memory(Activity& activity, const std::string& bytes) {
  const std::string doing = activity.doing();
  activity.finish();
  std::string text = "out of memory" + (doing.empty() ? "" : ": " + doing);
  if (!bytes.empty()) text += ": " + as_bytes(std::stod(bytes)) + " cannot be allocated";
  throw std::runtime_error(text);
}

}  // namespace

int run_command(const std::string& name, const CommandFunction& run) {
  Activity activity(name);
  try {
    return run(activity);
  } catch (const std::bad_alloc&) {
    fail_for_memory(activity, "");
  } catch (const std::length_error&) {  // a vector beyond any memory
    fail_for_memory(activity, "");
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    fail_for_memory(activity, bytes_asked_for(error));
  }
}

}  // namespace topomask::apps
