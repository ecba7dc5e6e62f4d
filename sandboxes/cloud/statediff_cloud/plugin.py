"""The plug-in of accounts of AWS."""

from __future__ import annotations

from typing import Final

from statediff.systems.base.plugin import (
    StateReader,
    SystemKind,
    SystemPlugin,
    UrlTools,
    all_named,
    by_url,
    calling,
    named,
)
from statediff.systems.hosted.transport import schemes_of

PLUGIN: Final = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(
            name="aws",
            load=named("statediff_cloud.sandbox:EmbeddedAccount"),
            requirement="statediff[cloud]",
            programs=("moto", "flask"),
        ),
    ),
    sources=all_named(
        "statediff_cloud.source:AwsSource", "statediff_cloud.endpoint:AwsEndpointSource"
    ),
    tools=UrlTools(
        schemes=frozenset({"aws+http"}), make=calling("statediff_cloud.tools:aws_tools")
    ),
    states=StateReader(
        name="cloud",
        description="an account of AWS",
        schemes=schemes_of("aws") | {"aws"},
        requirement="statediff[cloud]",
        source=by_url("statediff_cloud.endpoint:AwsEndpointSource"),
        unreadable="cannot be read as an account",
    ),
)
