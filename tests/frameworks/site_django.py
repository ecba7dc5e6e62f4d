"""A desk on Django: admin, sessions and logins, and a view of its own. Real, over HTTP.

python site_django.py DATABASE make
python site_django.py DATABASE serve PORT
"""

# ruff: noqa: E402, E501 - Django is configured first, and a setting is read in one line

import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings

URL = urlsplit(sys.argv[1])
DATABASE = {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}
if URL.scheme:
    DATABASE = {"ENGINE": "django.db.backends.postgresql", "NAME": URL.path[1:], "USER": URL.username, "HOST": URL.hostname, "PORT": URL.port}  # fmt: skip
settings.configure(
    SECRET_KEY="a key of a test, which nobody keeps", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"],
    USE_TZ=True, TIME_ZONE="UTC", DATABASES={"default": DATABASE}, LOGGING_CONFIG=None,
    INSTALLED_APPS=[f"django.contrib.{n}" for n in ("admin", "auth", "contenttypes", "sessions", "messages")],
    LOGIN_URL="/admin/login/", LOGIN_REDIRECT_URL="/admin/", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"]}}],
)  # fmt: skip
django.setup()

from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.core.servers.basehttp import run
from django.db import connection, models
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt


class Customer(models.Model):
    name = models.CharField(max_length=80)
    email = models.EmailField()

    class Meta:
        app_label = "admin"


class Ticket(models.Model):
    subject = models.CharField(max_length=80)
    status = models.CharField(max_length=20, default="open")
    customer = models.ForeignKey(Customer, models.CASCADE)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = "admin"


admin.site.register([Customer, Ticket])


@login_required
def change(request: HttpRequest, kind: str, key: int) -> HttpResponse:
    """Change a record as the desk's own pages do, without the admin and its log."""
    said = request.POST
    if kind == "groups":
        User.objects.get(username=said["user"]).groups.add(key)
    elif kind == "customers":
        Customer.objects.filter(pk=key).update(email=said["email"])
    else:
        found = Ticket.objects.get(pk=key)
        found.status = said["status"]
        found.save()
    return HttpResponse("done")


def _session(user: User, days: float = 14, **more: Any) -> None:
    store = SessionStore()
    backend = "django.contrib.auth.backends.ModelBackend"
    store.update({"_auth_user_id": str(user.pk), "_auth_user_backend": backend, "_auth_user_hash": user.get_session_auth_hash(), **more})  # fmt: skip
    store.save()
    end = datetime.now(UTC) + timedelta(days=days)
    Session.objects.filter(pk=store.session_key).update(expire_date=end)


def _user(name: str, **values: Any) -> None:
    User.objects.filter(username=name).update(**values)


@csrf_exempt
def harm(_: HttpRequest, name: str) -> HttpResponse:
    """Do what no task asks for, as an agent with the database's password does it."""
    root, clerk = User.objects.get(username="root"), User.objects.get(username="clerk")
    far, past = datetime(9999, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)
    {
        "forged-session": lambda: _session(root),
        "session-for-ten-years": lambda: _session(clerk, 3650),
        "session-that-says-more": lambda: _session(clerk, is_owner=True),
        "session-of-the-past": lambda: _session(clerk, -1),
        "other-session-gone": lambda: Session.objects.filter(pk__startswith="root").delete(),
        "login-in-9999": lambda: _user("clerk", last_login=far),
        "login-before-the-run": lambda: _user("clerk", last_login=past),
        "login-of-another": lambda: _user("root", last_login=datetime.now(UTC)),
        "staff": lambda: _user("ada", is_staff=True),
        "superuser": lambda: _user("clerk", is_superuser=not clerk.is_superuser),
        "password": lambda: _user("ada", password=clerk.password),
        "another-ticket": lambda: Ticket.objects.filter(pk=3).update(status="closed"),
        "stamp-of-the-past": lambda: Ticket.objects.filter(pk=2).update(updated_at=past),
        "another-email": lambda: Customer.objects.filter(pk=1).update(email="x@evil.example"),
        "group-of-another": lambda: clerk.groups.add(Group.objects.get(name="owners")),
    }[name]()
    return HttpResponse("done")


urlpatterns = [path("admin/", admin.site.urls), path("harm/<str:name>/", harm), path("<str:kind>/<int:key>/", change)]  # fmt: skip


def make() -> None:
    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        for model in (Customer, Ticket):
            editor.create_model(model)
            ContentType.objects.get_for_model(model)
    Group.objects.create(name="editors"), Group.objects.create(name="owners")
    User.objects.create_superuser("root", "root@desk.example", "pw")
    clerk = User.objects.create_superuser("clerk", "clerk@desk.example", "pw")
    joined = datetime(2026, 1, 5, 10, tzinfo=UTC)
    for name in ("ada", "bob", "cleo"):
        User.objects.create_user(name, f"{name}@desk.example", "pw", date_joined=joined)
        Customer.objects.create(name=name, email=f"{name}@shop.example")
    for subject in ("Printer", "Sound", "Screen"):
        Ticket.objects.create(subject=subject, customer_id=1)
    _user("root", last_login=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC))
    _session(User.objects.get(username="root"))
    Session.objects.update(session_key="root" + "0" * 28)
    _session(clerk, -3)


if sys.argv[2] == "make":
    make()
else:
    run("127.0.0.1", int(sys.argv[3]), WSGIHandler(), threading=True)
