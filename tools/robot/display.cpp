#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <c10/util/Exception.h>

#include <cstdlib>

#include "renderer.h"

namespace topomask::robot {

Display::Display() {
  // Mesa's threads would compete with other processes of the same run, and images this small do not need them.
  ::setenv("LP_NUM_THREADS", "0", 0);
  constexpr const char* kNeeds = "robot data: no OpenGL without a window (Debian: libegl1 libgl1-mesa-dri): ";
  const auto platform =
      reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(eglGetProcAddress("eglGetPlatformDisplayEXT"));
  TORCH_CHECK(platform, kNeeds, "EGL has no eglGetPlatformDisplayEXT");
  display_ = platform(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
  TORCH_CHECK(display_ != EGL_NO_DISPLAY && eglInitialize(display_, nullptr, nullptr), kNeeds,
              "eglInitialize fails with ", eglGetError());
  constexpr EGLint kWanted[] = {
      EGL_SURFACE_TYPE,    EGL_PBUFFER_BIT, EGL_RED_SIZE, 8, EGL_GREEN_SIZE, 8, EGL_BLUE_SIZE, 8, EGL_DEPTH_SIZE, 24,
      EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT,  EGL_NONE};
  EGLConfig config = nullptr;
  EGLint found = 0;
  TORCH_CHECK(eglChooseConfig(display_, kWanted, &config, 1, &found) && found > 0, kNeeds, "no configuration fits");
  eglBindAPI(EGL_OPENGL_API);
  context_ = eglCreateContext(display_, config, EGL_NO_CONTEXT, nullptr);
  TORCH_CHECK(context_ != EGL_NO_CONTEXT && eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, context_), kNeeds,
              "no context, error ", eglGetError());
}

Display::~Display() {
  eglMakeCurrent(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
  eglDestroyContext(display_, context_);
  eglTerminate(display_);
}

}  // namespace topomask::robot
